"""AdaptiveMetric: whitening with the covariance of all classes known so far."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, cholesky
from scipy.linalg.blas import strmm
from scipy.linalg.lapack import strtri
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.extmath import randomized_svd
from sklearn.utils.validation import check_is_fitted, validate_data

from openworld.recognition.adaptive.representation import MANY_FEATURES, Representation, rounded
from openworld.recognition.adaptive.reservoir import Reservoir, precise_enough
from openworld.recognition.blas import one_blas_thread
from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.validation import check_labels

Floats = NDArray[np.float32]

LARGEST_SCATTER = 4096
_ROWS_AT_ONCE = 16384
_CENTER_SAMPLES = 5  # with so many samples a class has half of its weight in the center
_COLUMNS_AT_ONCE = 128  # of triangular matrices
_SAMPLES_PER_FEATURE = 2  # fewer do not show in which directions samples spread
SAMPLES_FOR_AXES = 0.4  # the same for each of many features, of which the main directions are enough
_SAMPLES_TO_FIND_AXES = 3000
_AXES = 512
_SAMPLES_TO_INVERT = 5  # for each feature: with fewer, the inverse covariance fits the samples too closely
_FEWEST_TO_DIFFER = 8  # fewer classes do not show in which directions others differ
_NO_VARIANCE = 1e-30  # a variance of represented features that float32 could not tell from none


@dataclass(frozen=True)
class Whitening:
    """The linear map after which the within-class covariance is the identity.

    Attributes
    ----------
    center : array of shape (L,)
        The mean of the class means, in which a class of few samples weighs less.
    map : array of shape (L, L)
        Upper triangular, C-contiguous.
    shrinkage : float
        How much of the covariance was replaced by a multiple of the identity.
    per_sample : float
        How much one sample adds to the shrunk covariance.
    """

    center: Floats
    map: Floats
    shrinkage: float
    per_sample: float = 0.0

    @classmethod
    def of(cls, statistics: ClassStatistics, power: float = 1.0) -> Whitening:
        """Compute the whitening from class statistics.

        The covariance is shrunk by the OAS estimate to some power: 1 estimates the covariance best; less
        shrinks more, which may tell classes apart better.

        The scatter is rounded to float32 first and the map computed on one thread: a model file that has the
        scatter in float32 and no map gives the same map.
        """
        n_classes, n_samples = len(statistics), float(statistics.counts.sum())
        degrees = max(n_samples - n_classes, 1.0)
        covariance = statistics.scatter.astype(np.float32).astype(np.float64)
        covariance /= degrees
        shrinkage = oracle_approximating_shrinkage(covariance, degrees) ** power
        with one_blas_thread():
            inverse = _inverse_root(covariance, shrinkage)
        center = (center_weights(statistics.counts) @ statistics.means).astype(np.float32)
        per_sample = (1 - shrinkage) / degrees
        return cls(center, np.ascontiguousarray(inverse.T), shrinkage, per_sample)

    def __call__(self, represented: Floats) -> Floats:
        """Whiten represented samples, shape (n, L)."""
        centered = represented - self.center
        if len(self.map) <= _COLUMNS_AT_ONCE:
            return np.asarray(strmm(1.0, self.map.T, centered.T, lower=True, overwrite_b=True).T)
        return times_triangular(centered, self.map)


def times_triangular(matrix: Floats, triangular: Floats, *, lower: bool = False) -> Floats:
    """Multiply a matrix by a triangular one.

    In strips of columns, which leaves out most of the zeros: half the work. SciPy calls strmm while it holds
    the GIL, which would stop all other threads.
    """
    product = np.empty(matrix.shape, dtype=np.float32)
    for start in range(0, len(triangular), _COLUMNS_AT_ONCE):
        columns = slice(start, start + _COLUMNS_AT_ONCE)
        rows = slice(start, None) if lower else slice(columns.stop)
        np.matmul(matrix[:, rows], triangular[rows, columns], out=product[:, columns])
    return product


def center_weights(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weight of each class in the center of the class means, smaller for few samples."""
    weights = counts / (counts + _CENTER_SAMPLES)
    return np.asarray(weights / weights.sum())


def _inverse_root(covariance: NDArray[np.float64], shrinkage: float) -> Floats:
    """Return the inverse of the Cholesky factor of the shrunk covariance."""
    level = float(np.trace(covariance)) / len(covariance)
    if level < _NO_VARIANCE:
        level = 1.0
    # A floor keeps the factorization sound in float32 when features repeat each other exactly; the more
    # one direction stands out from the others, the higher it has to be.
    for floor in (1e-4, 1e-3, 1e-2, 1e-1):
        shrunk = _shrunk(covariance, shrinkage, max(shrinkage, floor) * level)
        try:
            return inverse_cholesky(shrunk.astype(np.float32))
        except LinAlgError:
            continue
    return np.asarray(np.eye(len(covariance)) / np.sqrt(level), dtype=np.float32)


def _shrunk(covariance: NDArray[np.float64], shrinkage: float, added: float) -> NDArray[np.float64]:
    """Return a covariance less a share of it, with something added to each variance."""
    shrunk = (1 - shrinkage) * covariance
    shrunk[np.diag_indices_from(shrunk)] += added
    return np.asarray(shrunk)


def inverse_cholesky(matrix: Floats) -> Floats:
    """Return the inverse of the Cholesky factor of a matrix.

    By halves, ``[[A, .], [B, C]]``: with R the inverse root of A and ``M = B R^T``, the root is
    ``[[R^-1, 0], [M, S^-1]]`` with S the inverse root of ``C - M M^T``, and its inverse
    ``[[R, 0], [-S M R, S]]``. Products of matrices do all of the work but on small blocks.

    Raises
    ------
    LinAlgError
        If the matrix is not positive definite.
    """
    if len(matrix) <= _COLUMNS_AT_ONCE:
        inverse, _ = strtri(cholesky(matrix, lower=True, check_finite=False), lower=True, overwrite_c=True)
        return np.asarray(inverse)
    half = len(matrix) // 2
    inverse = np.zeros_like(matrix)
    inverse[:half, :half] = first = inverse_cholesky(matrix[:half, :half])
    mixed = times_triangular(matrix[half:, :half], first.T)
    inverse[half:, half:] = second = inverse_cholesky(matrix[half:, half:] - mixed @ mixed.T)
    inverse[half:, :half] = -times_triangular(times_triangular(mixed.T, second.T).T, first, lower=True)
    return inverse


def represented_statistics(
    representation: Representation, samples: NDArray[Any], labels: NDArray[Any]
) -> ClassStatistics:
    """Return the statistics of represented samples, computed a few thousand at a time."""
    statistics = ClassStatistics("pooled")
    for start in range(0, len(samples), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        statistics.add(representation(samples[rows]), labels[rows])
    return statistics


def _fitted_lift(
    representation: Representation, samples: NDArray[Any], labels: NDArray[Any]
) -> Representation:
    """Return the representation with the lift fitted to samples, as far as they are enough."""
    n_samples, n_features = samples.shape
    if representation.directions:
        many_features = n_features > MANY_FEATURES
        if n_samples < (SAMPLES_FOR_AXES if many_features else _SAMPLES_PER_FEATURE) * n_features:
            return representation
        if many_features:
            return replace(representation, axes=_axes(representation, samples, labels))
        return representation.stretched(_spread(representation, samples, labels))
    within = _within(representation, samples, labels)
    if n_samples < _SAMPLES_TO_INVERT * n_features:
        within = np.eye(n_features) * np.trace(within) / n_features
    return representation.scaled_to(within)


def _axes(representation: Representation, samples: NDArray[Any], labels: NDArray[Any]) -> Floats | None:
    """Return axes A for which ``I + A A^T`` is a multiple of the fourth root of the covariance of samples.

    The covariance is that before the lift, as in `_spread`, of some samples chosen by their content. It is
    shrunk, and alike in all directions but those in which samples spread most.
    """
    classes = np.unique(labels)
    kept = Reservoir(1, _SAMPLES_TO_FIND_AXES, precise_enough(samples))
    kept.add(samples, labels)
    some, codes = kept.samples(classes, kept.per_class)
    n_classes = len(classes) if len(classes) < _FEWEST_TO_DIFFER else 1
    spread = replace(representation, n_lifted=0)(some).astype(np.float64)
    for part in [codes == code for code in range(n_classes)] if n_classes > 1 else [slice(None)]:
        spread[part] -= spread[part].mean(axis=0)
    n_samples, n_features = spread.shape
    degrees = max(n_samples - n_classes, 1)
    n_axes = min(_AXES, n_samples)
    _, sizes, axes = randomized_svd(spread, n_axes, n_iter=2, transpose=False, random_state=0)
    variances, total = sizes**2 / degrees, np.vdot(spread, spread) / degrees
    level = total / n_features
    if level < _NO_VARIANCE:
        return None
    shrinkage = _shrinkage(level, float(np.mean(variances**2) * n_axes) / n_features**2, n_features, degrees)
    rest = max(total - variances.sum(), 0.0) / (n_features - n_axes)
    shrunk = (1 - shrinkage) * np.append(variances, rest) + shrinkage * level
    longer = (shrunk[:-1] / shrunk[-1]) ** 0.25 - 1
    return rounded(axes.T * np.sqrt(np.maximum(longer, 0)))


def _spread(
    representation: Representation, samples: NDArray[Any], labels: NDArray[Any]
) -> NDArray[np.float64]:
    """Return the shrunk covariance of samples before the lift; of few classes, that within them."""
    if len(np.unique(labels)) >= _FEWEST_TO_DIFFER:
        labels = np.zeros(len(samples), dtype=np.intp)
    return _within(representation, samples, labels)


def _within(
    representation: Representation, samples: NDArray[Any], labels: NDArray[Any]
) -> NDArray[np.float64]:
    """Return the shrunk covariance within the classes before the lift; of all samples where none has two."""
    statistics = represented_statistics(replace(representation, n_lifted=0), samples, labels)
    if len(statistics) == len(samples) > 1:
        return _within(representation, samples, np.zeros(len(samples), dtype=np.intp))
    degrees = max(len(samples) - float(len(statistics)), 1.0)
    covariance = statistics.scatter / degrees
    shrinkage = oracle_approximating_shrinkage(covariance, degrees)
    return _shrunk(covariance, shrinkage, shrinkage * float(np.trace(covariance)) / len(covariance))


def oracle_approximating_shrinkage(covariance: NDArray[np.float64], n_samples: float) -> float:
    """Return the OAS shrinkage of a sample covariance toward a multiple of the identity.

    Chen, Wiesel, Eldar, Hero: Shrinkage algorithms for MMSE covariance estimation, 2010, Eq. 23. It
    needs the covariance and the number of samples only, not the samples.
    """
    level = float(np.trace(covariance)) / len(covariance)
    mean_square = float(np.vdot(covariance, covariance)) / covariance.size
    return _shrinkage(level, mean_square, len(covariance), n_samples)


def _shrinkage(level: float, mean_square: float, n_features: int, n_samples: float) -> float:
    """Return the OAS shrinkage, from the mean variance and the mean square of a covariance."""
    denominator = (n_samples + 1.0) * (mean_square - level**2 / n_features)
    if denominator <= 0:
        return 1.0
    return float(min((mean_square + level**2) / denominator, 1.0))


def unit(vectors: Floats) -> Floats:
    """Scale each row to unit length (scikit-learn's `normalize` leaves rows shorter than 1e-6)."""
    return np.asarray(vectors / row_lengths(vectors))


def row_lengths(vectors: Floats) -> Floats:
    """Return the length of each row, shape (n, 1), above zero also for a row of zeros."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, np.newaxis]
    return np.asarray(np.maximum(lengths, np.finfo(np.float32).tiny))


class AdaptiveMetric(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A metric with `partial_fit`: a function of counts, sums and scatter of all classes known so far.

    Samples are mapped by a fixed `Representation`, whitened with the shrunk within-class covariance of
    all classes, and divided by their length; distances between the results are angles. Learning
    further classes one at a time, in any order, gives the metric of learning them together; nothing is
    forgotten and no sample is stored.

    Parameters
    ----------
    standardize : bool, default=False
        Standardize with the samples given to `fit`, and keep the length of a sample as a feature. For
        features in different units.
    n_lifted : int, default=0
        Rows of the random ReLU lift; 0 for none. It costs `n_lifted` squared in memory and time. From two
        samples for each feature on, or for five of more than 1,024, the rows are longer in the directions in
        which samples spread more.
    random_state : int, default=0
        Determines the lift.
    directions : bool, default=True
        False, only together with `standardize`, keeps lengths, for few features: distances between the
        results are those of Mahalanobis. With a lift the features are random Fourier features at the scale
        of a class, which also suits classes of several parts.
    power : float, default=1.0
        Of the shrinkage, see `Whitening.of`.

    Attributes
    ----------
    representation_ : Representation
    statistics_ : ClassStatistics
        Of the represented samples, with pooled scatter.
    whitening_ : Whitening

    Notes
    -----
    Memory is L x L float64 for the scatter and L x L float32 for the map, where L is `n_lifted` or the
    number of features; a refresh costs about L^3 operations, whatever the number of classes. For more
    than 4,096 features ask for a lift, which bounds L.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "standardize": ["boolean"],
        "n_lifted": [Interval(Integral, 0, None, closed="left")],
        "random_state": "no_validation",
        "directions": ["boolean"],
        "power": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        standardize: bool = False,
        n_lifted: int = 0,
        random_state: int = 0,
        directions: bool = True,
        power: float = 1.0,
    ) -> None:
        self.standardize = standardize
        self.n_lifted = n_lifted
        self.random_state = random_state
        self.directions = directions
        self.power = power

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit the representation and learn the first classes."""
        return self.fit_statistics(X, y).refresh()

    def fit_statistics(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit without computing the whitening; call `refresh` afterwards."""
        self._validate_params()
        samples, labels = self._validate(X, y, reset=True)
        if not self.n_lifted and samples.shape[1] > LARGEST_SCATTER:
            raise ValueError(
                f"{samples.shape[1]} features would need a scatter of that size squared: "
                "set n_lifted, for example to 2000."
            )
        if not self.directions and not self.standardize:
            raise ValueError("directions=False needs standardize=True.")
        representation = Representation.of(
            samples,
            labels,
            standardize=self.standardize,
            n_lifted=self.n_lifted,
            seed=self.random_state,
            directions=self.directions,
        )
        if self.n_lifted:
            representation = _fitted_lift(representation, samples, labels)
        self.representation_ = representation
        self.statistics_ = represented_statistics(self.representation_, samples, labels)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn further samples, of known and of new classes, and refresh the whitening."""
        if not hasattr(self, "statistics_"):
            return self.fit(X, y)
        samples, labels = self._validate(X, y, reset=False)
        self.statistics_ = self.statistics_ + represented_statistics(self.representation_, samples, labels)
        return self.refresh()

    def refresh(self) -> Self:
        """Compute the whitening from the current statistics."""
        self.whitening_ = Whitening.of(self.statistics_, self.power)
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """Map samples to unit vectors, shape (n, L), unless `directions` and lift are left out."""
        check_is_fitted(self)
        samples = validate_data(self, X, reset=False, dtype="numeric")
        whitened = self.whitening_(self.representation_(samples))
        return whitened if self.representation_.keeps_distances else unit(whitened)

    def _validate(self, X: ArrayLike, y: ArrayLike, *, reset: bool) -> tuple[NDArray[Any], NDArray[Any]]:
        samples, labels = validate_data(self, X, check_labels(y), reset=reset, dtype="numeric")
        return samples, labels

    @property
    def _n_features_out(self) -> int:
        return self.representation_.n_dimensions

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags
