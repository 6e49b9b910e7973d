"""The W-SVM: a one-class SVM bounds each class, two Weibull distributions calibrate its score."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils._param_validation import Interval

from openworld.baselines.base import Baseline, Scorer
from openworld.baselines.linear_svm import one_vs_rest, standardizer
from openworld.baselines.pi_svm import (
    TAIL_PER_SUPPORT_VECTOR,
    fit_inclusion,
    fit_tails,
    held_out_scores,
    one_class_inclusion,
    upper_tail,
)
from openworld.baselines.weibull import Weibull
from openworld.recognition import CrossClassValidation

Floats = NDArray[np.float64]

# delta_tau of the paper: the minimum one-class probability for a class to be considered.
_LEAST_ONE_CLASS_PROBABILITY = 0.001


class WSVM(Baseline):
    """The Weibull-calibrated SVM, a compact abating probability model.

    Scheirer, Jain & Boult, "Probability models for open set recognition", 2014. The score of class y is
    ``P_eta(f_y(x)) P_psi(f_y(x)) iota_y(x)``: f_y is an RBF SVM of the class against the rest, P_eta the
    probability of inclusion from the smallest scores of the class's own samples, P_psi the probability
    of not being one of the rest, from their largest scores, and iota_y is 1 where the RBF one-class SVM of
    the class gives P_O > delta_tau = 0.001, else 0.

    Differences from the paper: those of `PISVM` (held-out scores, constants instead of a search), and
    delta_tau is raised to the value of P_O infinitely far away where that is larger. Then iota, and with it
    the score, is 0 far from all data, as the paper intends, and any threshold from 0 up bounds the accepted
    region. Samples are standardized but not scaled to unit length, which would undo that. With a single
    class the score is ``P_O iota``.

    Parameters
    ----------
    C : float, default=10.0
        Cost of errors of the one-vs-rest SVMs, as in `PISVM`.
    threshold, unknown_label
        As in `Baseline`.
    """

    accepts_bounded_region = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Baseline._parameter_constraints,
        "C": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        C: float = 10.0,
        *,
        threshold: float | CrossClassValidation | None = None,
        unknown_label: Any = None,
    ) -> None:
        super().__init__(threshold=threshold, unknown_label=unknown_label)
        self.C = C

    def _train(self, X: NDArray[Any], codes: NDArray[np.intp], n_classes: int) -> Scorer:
        scale = standardizer(X, unit_length=False)
        vectors = scale(X)
        gram = rbf_kernel(vectors, gamma=1.0)
        one_class_dual, one_class = one_class_inclusion(gram, codes, n_classes)
        least = np.maximum(one_class.survival(1.0), _LEAST_ONE_CLASS_PROBABILITY)

        def considered(kernel: Floats) -> Floats:
            probability = one_class.survival(1 - kernel @ one_class_dual)
            return np.where(probability > least, probability, 0.0)

        if n_classes == 1:
            return lambda samples: considered(rbf_kernel(scale(samples), vectors, gamma=1.0))
        dual, intercepts = one_vs_rest(gram, codes, n_classes, self.C)
        scores = held_out_scores(gram, codes, dual, intercepts, self.C)
        inclusion = fit_inclusion(scores, codes, dual)
        rest = fit_rest(scores, codes, dual)

        def probabilities(samples: NDArray[Any]) -> Floats:
            kernel = rbf_kernel(scale(samples), vectors, gamma=1.0)
            margins = kernel @ dual + intercepts
            return inclusion.survival(-margins) * rest.cdf(margins) * (considered(kernel) > 0)

        return probabilities


def fit_rest(scores: Floats, codes: NDArray[np.intp], dual: Floats) -> Weibull:
    """Fit the largest scores that samples of other classes get from each machine; cdf(f) is P_psi(f).

    The tail is 1.5 scores per support vector of the rest, over the number of classes in the rest, as in the
    authors' program: one class's share.
    """
    tails = []
    for code, (column, coefficients) in enumerate(zip(scores.T, dual.T, strict=True)):
        rest = codes != code
        share = np.count_nonzero(coefficients[rest]) / (dual.shape[1] - 1)
        tails.append(upper_tail(column[rest], int(TAIL_PER_SUPPORT_VECTOR * share)))
    return fit_tails(tails)
