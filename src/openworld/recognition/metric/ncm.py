"""NCMMetric: the low-rank Mahalanobis metric W, learned by maximum likelihood (Eq. 1 and Eq. 2)."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.metric.solvers import (
    Problem,
    Progress,
    Solution,
    authors_sgd,
    discriminant_then_descent,
)
from openworld.recognition.validation import check_labels, stratified_draw

Floats = NDArray[np.floating[Any]]

_MOST_FEATURES = 10_000  # for the solver "discriminant"
_BYTES_PER_COVARIANCE = 17  # measured: 6.7 GB for 20,000 features


class LinearMetric(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base class of metrics that standardize the features and map them by W: ``W' (x - mean) / scale``.

    Subclasses learn `mean_`, `scale_` and `W_` and call `set_fitted`.
    """

    mean_: NDArray[np.float64]
    scale_: NDArray[np.float64]
    W_: NDArray[np.float64]

    def set_fitted(self, mean: Floats, scale: Floats, W: Floats) -> None:
        """Set the learned mean, scale and W."""
        self.mean_, self.scale_, self.W_ = (np.asarray(part, dtype=np.float64) for part in (mean, scale, W))
        # Standardization and W are combined into one affine map, so that predicting takes one matrix product.
        folded = self.W_ / self.scale_[:, np.newaxis]
        offset = self.mean_ @ folded
        self.affine_ = {
            np.dtype(kind): (folded.astype(kind), offset.astype(kind)) for kind in ("float32", "float64")
        }

    @property
    def _n_features_out(self) -> int:
        return int(self.W_.shape[1])

    def transform(self, X: ArrayLike) -> Floats:
        """Map samples into the space where Euclidean distance is the learned distance.

        Parameters
        ----------
        X : array of shape (n, D)

        Returns
        -------
        Z : array of shape (n, m)
            float32 for float32 samples, float64 otherwise.
        """
        check_is_fitted(self)
        samples: Floats = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        folded, offset = self.affine_[samples.dtype]
        projected = samples @ folded
        projected -= offset
        return np.asarray(projected)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class EuclideanMetric(LinearMetric):
    """Plain Euclidean distance, by default on features standardized with the starting classes.

    Parameters
    ----------
    standardize : bool, default=True
        Divide each feature by its standard deviation over the samples given to `fit`.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {"standardize": ["boolean"]}

    def __init__(self, *, standardize: bool = True) -> None:
        self.standardize = standardize

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Compute the mean and standard deviation of the features.

        Parameters
        ----------
        X : array of shape (n, D)
        y : ignored
        """
        self._validate_params()
        samples: Floats = validate_data(self, X, dtype=[np.float64, np.float32])
        mean, scale = _mean_and_scale(samples, self.standardize)
        self.set_fitted(mean, scale, np.eye(samples.shape[1]))
        return self


class NCMMetric(LinearMetric):
    """Low-rank Mahalanobis metric for nearest class means, learned by maximum likelihood.

    Learns the matrix W (D x m) that maximizes the likelihood of the true classes, where ``p(c|x)`` is the
    softmax over ``-|W'x - W'mu_c|^2 / 2`` (Eq. 1). The metric is learned once, on the starting classes, and
    then stays fixed.

    Parameters
    ----------
    n_components : int, optional
        Dimension m of the projected space, at most the number of features D. By default ``min(D, 512)``;
        the authors used 512.
    form : {"distance", "dot"}, default="distance"
        Eq. 1, or Eq. 2: the softmax over ``x'WW'mu_c + s_c`` with a bias per class.
    solver : {"discriminant", "sgd"}, default="discriminant"
        "discriminant" starts from the closed-form discriminant directions of the shrunk within-class
        covariance, fits their scale, then runs Adam in whitened coordinates until the loss on held-out
        samples stops falling. "sgd" is the authors' method: W starts as 0.1 x standard normal, each step
        draws 100 samples with replacement, and the learning rate is constant.
    max_iter : int, optional
        Epochs of "discriminant" (default 100) or steps of "sgd" (default 20,000; the authors ran about
        1,000,000).
    learning_rate : float, optional
        Learning rate of "sgd" (default 0.001), or of Adam relative to the size of W (default 0.01).
    standardize : bool, default=True
        Divide each feature by its standard deviation over the samples given to `fit`, as in the paper. Use
        False if all features have the same unit and some hardly vary, such as pixels at the border.
    validation_fraction : float, default=0.1
        Share of each class's samples held out to monitor the loss; each class keeps at least one sample.
    callback : callable, optional
        Called with (iteration, max_iter, held-out loss) during training.
    random_state : int, RandomState or None, default=0

    Attributes
    ----------
    W_ : array of shape (D, m)
        The projection of standardized features.
    mean_, scale_ : arrays of shape (D,)
        Mean and standard deviation of the features over the starting classes.
    biases_ : array of shape (K,)
        s_c of Eq. 2; zeros for Eq. 1.
    classes_ : array of shape (K,)
        The starting classes.
    loss_curve_, held_out_loss_curve_ : list of float
        Training and held-out loss at every evaluation.
    steps_curve_ : list of int
        Number of gradient steps before every evaluation.
    seconds_curve_ : list of float
        Seconds elapsed before every evaluation.
    n_iter_ : int
        Total number of gradient steps.
    seconds_ : float
        Total seconds elapsed.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "form": [StrOptions({"distance", "dot"})],
        "solver": [StrOptions({"discriminant", "sgd"})],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "standardize": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "callback": [callable, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        form: Literal["distance", "dot"] = "distance",
        solver: Literal["discriminant", "sgd"] = "discriminant",
        max_iter: int | None = None,
        learning_rate: float | None = None,
        standardize: bool = True,
        validation_fraction: float = 0.1,
        callback: Progress | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.n_components = n_components
        self.form = form
        self.solver = solver
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.standardize = standardize
        self.validation_fraction = validation_fraction
        self.callback = callback
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the metric on the starting classes.

        Parameters
        ----------
        X : array of shape (n, D)
        y : array of shape (n,)
            Labels of at least two classes.
        """
        self._validate_params()
        samples: Floats
        samples, labels = validate_data(self, X, check_labels(y), dtype=[np.float64, np.float32])
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("Learning a metric needs at least 2 classes; got 1 class.")
        self._check_memory(samples.shape[1])
        mean, scale = _mean_and_scale(samples, self.standardize)
        standardized = ((samples - mean) / scale).astype(samples.dtype, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):  # a loss that is not finite raises an error
            solution = self._solve(self._problem(standardized, codes))
        self.set_fitted(mean, scale, solution.W)
        self.biases_ = np.asarray(solution.biases, dtype=np.float64)
        self.loss_curve_ = solution.training_loss
        self.held_out_loss_curve_ = solution.held_out_loss
        self.steps_curve_ = solution.steps
        self.seconds_curve_ = solution.seconds
        self.n_iter_ = max(solution.steps[-1], 1)
        self.seconds_ = solution.seconds[-1]
        return self

    def _check_memory(self, n_features: int) -> None:
        """Raise an error if the covariance of the features would not fit into the memory of most machines."""
        if self.solver == "discriminant" and n_features > _MOST_FEATURES:
            size = _BYTES_PER_COVARIANCE * n_features**2 / 1e9
            raise ValueError(
                f"Learning a metric of {n_features:,} features needs about {size:.1f} GB for a covariance. "
                "Use OpenWorldRecognizer, which first maps the features to 2,000 dimensions; or reduce them "
                "with scikit-learn's make_pipeline(TruncatedSVD(512), ...); or set NCMMetric(solver='sgd')."
            )

    def _problem(self, X: Floats, codes: NDArray[np.intp]) -> Problem:
        order = check_random_state(self.random_state).permutation(len(codes))
        held = stratified_draw(codes, self.validation_fraction, order)
        learned = ClassStatistics("none").add(X[~held], codes[~held])
        means = learned.means.astype(X.dtype)
        return Problem(X[~held], codes[~held], X[held], codes[held], means, self.form == "dot")

    def _solve(self, problem: Problem) -> Solution:
        n_features = problem.X.shape[1]
        n_components = min(n_features, 512) if self.n_components is None else self.n_components
        if n_components > n_features:
            raise ValueError(
                f"n_components={n_components} must be between 1 and the number of features, {n_features}."
            )
        random_state = check_random_state(self.random_state)
        if self.solver == "sgd":
            return authors_sgd(
                problem,
                n_components,
                n_steps=self.max_iter or 20_000,
                learning_rate=self.learning_rate or 0.001,
                random_state=random_state,
                progress=self.callback,
            )
        return discriminant_then_descent(
            problem,
            n_components,
            n_epochs=self.max_iter or 100,
            learning_rate=self.learning_rate or 0.01,
            random_state=random_state,
            progress=self.callback,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _mean_and_scale(X: Floats, standardize: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean and the scale of each feature: its standard deviation, or 1 if it is constant.

    Without `standardize` every scale is 1.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean = X.mean(axis=0, dtype=np.float64)
        scale = X.std(axis=0, dtype=np.float64) if standardize else np.ones_like(mean)
    if not np.all(np.isfinite(mean)) or not np.all(np.isfinite(scale)):
        raise ValueError("The features are too large: their variance overflows float64. Scale X down.")
    if not standardize:
        return mean, scale
    # The rounding error of a sum of n equal values grows with n and looks like a deviation.
    rounding = 10 * np.finfo(X.dtype).eps + len(X) * np.finfo(np.float64).eps
    constant = scale <= rounding * np.abs(mean)
    return mean, np.where(constant, 1.0, scale)


def new_metric(metric: Any) -> Any:
    """Return an unfitted copy of the metric given as a parameter, or the paper's metric if it is None."""
    return NCMMetric() if metric is None else clone(metric)


def same_metric(a: Any, b: Any) -> bool:
    """Return whether two fitted metrics are equal: same type, and all learned arrays are the same."""
    if a is b:
        return True
    left, right = list(_arrays(a)), list(_arrays(b))
    return type(a) is type(b) and len(left) == len(right) and all(map(np.array_equal, left, right))


def _arrays(part: Any) -> Iterator[NDArray[Any]]:
    """Yield every array learned by an estimator and by nested estimators, such as those of a pipeline."""
    if isinstance(part, np.ndarray):
        yield part
    elif isinstance(part, list | tuple):
        for item in part:
            yield from _arrays(item)
    elif isinstance(part, dict | BaseEstimator):
        named = part if isinstance(part, dict) else vars(part)
        for name in sorted(named, key=str):  # a loaded estimator may have its attributes in another order
            yield from _arrays(named[name])
