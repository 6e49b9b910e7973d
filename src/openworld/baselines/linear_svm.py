"""One-vs-rest linear SVM, thresholded at its largest margin."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.svm import SVC
from sklearn.utils._param_validation import Interval

from openworld.baselines.base import Baseline, Scorer
from openworld.recognition import CrossClassValidation

Floats = NDArray[np.float64]

# No practical bound on the coefficients: the penalty is on the kernel's diagonal instead.
_UNBOUNDED = 1e6


class LinearSVM(Baseline):
    """One linear SVM per class against the rest; the score is the margin ``w_c . x + b_c``.

    The closed-set classifier of the papers on open set recognition, with rejection: a sample is unknown
    where every margin is below the threshold. Samples are scaled to unit length and standardized first.

    Parameters
    ----------
    C : float, default=3.0
        Cost of errors, for samples with a mean squared length of 1 (see `standardizer`).
    threshold, unknown_label
        As in `Baseline`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Baseline._parameter_constraints,
        "C": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        C: float = 3.0,
        *,
        threshold: float | CrossClassValidation | None = None,
        unknown_label: Any = None,
    ) -> None:
        super().__init__(threshold=threshold, unknown_label=unknown_label)
        self.C = C

    def _train(self, X: NDArray[Any], codes: NDArray[np.intp], n_classes: int) -> Scorer:
        if n_classes == 1:
            return lambda samples: np.zeros((len(samples), 1))
        scale = standardizer(X, unit_length=True)
        weights, intercepts = fit_linear_svm(scale(X), codes, n_classes, self.C)
        return lambda samples: scale(samples) @ weights + intercepts


def standardizer(X: NDArray[Any], *, unit_length: bool) -> Callable[[NDArray[Any]], Floats]:
    """Return a function that standardizes features and divides by the root of their number.

    With `unit_length`, samples are scaled to unit length first. The result has a mean squared length of 1,
    so one `C` and one kernel width fit any number of features.
    """
    steps = [Normalizer(), StandardScaler()] if unit_length else [StandardScaler()]
    scaler = make_pipeline(*steps).fit(X.astype(np.float64))
    root = np.sqrt(X.shape[1])
    return lambda samples: np.asarray(scaler.transform(samples.astype(np.float64)) / root)


def fit_linear_svm(
    X: Floats, codes: NDArray[np.intp], n_classes: int, C: float
) -> tuple[Floats, NDArray[np.float64]]:
    """Train a linear SVM of each class against the rest.

    Minimizes ``|w|^2 / 2 + C sum(max(0, 1 - y (w . x + b))^2)``, the objective of scikit-learn's
    `LinearSVC` without its penalty on b. It is solved in the dual, where the squared hinge adds a constant
    1 / 2C to the kernel's diagonal: all classes then share one kernel matrix, which takes seconds where
    `LinearSVC` takes minutes.

    Returns
    -------
    weights : array of shape (D, K)
    intercepts : array of shape (K,)
    """
    gram = X @ X.T
    gram.flat[:: len(X) + 1] += 1 / (2 * C)
    dual, intercepts = one_vs_rest(gram, codes, n_classes, _UNBOUNDED)
    return X.T @ dual, intercepts


def one_vs_rest(
    gram: Floats, codes: NDArray[np.intp], n_classes: int, C: float
) -> tuple[Floats, NDArray[np.float64]]:
    """Train an SVM of each class against the rest on one kernel matrix.

    Returns
    -------
    dual : array of shape (n, K)
        Coefficients of the training samples: positive for those of the class, negative for the rest,
        zero for all but the support vectors.
    intercepts : array of shape (K,)
    """
    dual, intercepts = np.zeros((len(codes), n_classes)), np.zeros(n_classes)
    # Checking the whole matrix again for every class would dominate the time.
    with sklearn.config_context(assume_finite=True, skip_parameter_validation=True):
        for code in range(n_classes):
            machine = SVC(C=C, kernel="precomputed").fit(gram, codes == code)
            dual[machine.support_, code] = machine.dual_coef_[0]
            intercepts[code] = machine.intercept_[0]
    return dual, intercepts
