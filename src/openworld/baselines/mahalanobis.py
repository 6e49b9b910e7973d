"""Mahalanobis distance to the class means, alone and relative to that of a background Gaussian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cholesky, solve_triangular

from openworld.baselines.base import Rival, Scorer
from openworld.index import ExactIndex
from openworld.recognition import ClassStatistics, CrossClassValidation
from openworld.recognition.adaptive_metric import oracle_approximating_shrinkage
from openworld.recognition.labels import as_array, as_key
from openworld.recognition.learning import check_announced, continue_training, unchanged_on_error

Floats = NDArray[np.float64]

_LEAST_SHRINKAGE = 1e-9  # keeps a covariance of features that repeat each other invertible


@dataclass(frozen=True)
class SharedGaussian:
    """Gaussians of several means and one covariance.

    Attributes
    ----------
    inverse_root : array of shape (D, D)
        A map after which the covariance is the identity.
    whitened_means : ExactIndex
    """

    inverse_root: Floats
    whitened_means: ExactIndex

    @classmethod
    def of(cls, means: Floats, covariance: Floats) -> SharedGaussian:
        """Make it from means of shape (K, D) and a positive definite covariance."""
        root = cholesky(covariance, lower=True, check_finite=False)
        identity = np.eye(len(root))
        inverse_root = solve_triangular(root, identity, lower=True, check_finite=False).T
        return cls(inverse_root, ExactIndex(means @ inverse_root))

    def squared_distances(self, samples: NDArray[Any]) -> Floats:
        """Return ``(x - mu_c)^T Sigma^-1 (x - mu_c)``, shape (n, K)."""
        whitened = samples.astype(np.float64) @ self.inverse_root
        return np.asarray(self.whitened_means.squared_distances(whitened))


def shrunk(covariance: Floats, n_samples: float, shrinkage: float | None) -> Floats:
    """Replace a share of a covariance by a multiple of the identity; by default the share OAS proposes."""
    if shrinkage is None:
        shrinkage = oracle_approximating_shrinkage(covariance, n_samples)
    level = float(np.trace(covariance)) / len(covariance) or 1.0
    result = (1 - shrinkage) * covariance
    result[np.diag_indices_from(result)] += max(shrinkage, _LEAST_SHRINKAGE) * level
    return np.asarray(result)


class StatisticsRival(Rival):
    """A rival whose scorer is made of counts, means and pooled scatter, all of them sums.

    It learns without the samples, so pieces and order make no difference, and stores K x D and D x D
    numbers. The threshold is found on the starting classes and stays: finding it anew would need
    samples.

    A subclass has `_score_by(statistics, order)`.
    """

    retrains = False

    def _score_by(self, statistics: ClassStatistics, order: NDArray[np.intp]) -> Scorer:
        """Make the scorer whose columns are these rows of the statistics."""
        raise NotImplementedError

    def _train(self, X: NDArray[Any], codes: NDArray[np.intp], n_classes: int) -> Scorer:
        self._trained = ClassStatistics("pooled").add(X, codes)  # rows in the order of the codes
        return self._score_by(self._trained, np.arange(n_classes))

    def _learn(self, samples: NDArray[Any], labels: NDArray[Any]) -> None:
        super()._learn(samples, labels)
        self.statistics_ = ClassStatistics.restore(
            [as_key(label) for label in self.classes_],
            self._trained.counts,
            self._trained.sums,
            "pooled",
            self._trained.scatter,
        )
        del self._samples, self._labels, self._trained

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn further samples, of known and new classes alike, by adding their statistics."""
        check_announced(y, classes)
        if not hasattr(self, "classes_"):
            return self.fit(X, y)
        with unchanged_on_error(self):
            samples, labels = continue_training(self, X, y)
            self.statistics_ = self.statistics_ + ClassStatistics("pooled").add(samples, labels)
            known = as_array(self.statistics_.labels)
            order = np.argsort(known, kind="stable")
            self.classes_ = known[order]
            self._scorer = self._score_by(self.statistics_, order)
        return self


@dataclass(frozen=True)
class _MinusSquaredDistance:
    classes: SharedGaussian

    def __call__(self, samples: NDArray[Any]) -> Floats:
        return -self.classes.squared_distances(samples)


class Mahalanobis(StatisticsRival):
    """Minus the squared Mahalanobis distance to each class mean, with one covariance for all classes.

    Lee, Lee, Lee, Shin, "A simple unified framework for detecting out-of-distribution samples and
    adversarial attacks", NeurIPS 2018: means and tied covariance of Eq. 1, confidence score of Eq. 2. On
    features as they are given: neither input perturbation nor an ensemble of layers. The covariance
    is shrunk (Chen et al. 2010), without which it has no inverse where samples are few.

    Accepted samples lie in ellipsoids, so their region is bounded. The threshold is found on the
    starting classes and stays.

    Parameters
    ----------
    shrinkage : float, optional
        Share of the covariance replaced by a multiple of the identity; by default what oracle
        approximating shrinkage proposes. 0 is the paper's.
    threshold : float or CrossClassValidation, optional
        By default cross-class validation with `BalancedAccuracy`.
    unknown_label : label, optional
        By default -1 for numbers and "unknown" for text.
    """

    accepts_bounded_region = True

    def __init__(
        self,
        *,
        shrinkage: float | None = None,
        threshold: float | CrossClassValidation | None = None,
        unknown_label: Any = None,
    ) -> None:
        super().__init__(threshold=threshold, unknown_label=unknown_label)
        self.shrinkage = shrinkage

    def _class_gaussians(self, statistics: ClassStatistics, order: NDArray[np.intp]) -> SharedGaussian:
        """Return class means and tied covariance, ``1/N sum_c sum_i (x_i - mu_c)(x_i - mu_c)^T`` (Eq. 1)."""
        n_samples = float(statistics.counts.sum())
        covariance = shrunk(statistics.scatter / n_samples, n_samples, self.shrinkage)
        return SharedGaussian.of(statistics.means[order], covariance)

    def _score_by(self, statistics: ClassStatistics, order: NDArray[np.intp]) -> Scorer:
        return _MinusSquaredDistance(self._class_gaussians(statistics, order))


@dataclass(frozen=True)
class _MinusRelativeDistance:
    classes: SharedGaussian
    background: SharedGaussian

    def __call__(self, samples: NDArray[Any]) -> Floats:
        return np.asarray(
            self.background.squared_distances(samples) - self.classes.squared_distances(samples)
        )


class RelativeMahalanobis(Mahalanobis):
    """Mahalanobis distance to each class minus that to a background Gaussian of all samples together.

    Ren, Fort, Liu, Roy, Padhy, Lakshminarayanan, "A simple fix to Mahalanobis distance for improving
    near-OOD detection", 2021: ``RMD_k(x) = MD_k(x) - MD_0(x)``, the score is ``-min_k RMD_k``. The background's
    scatter is that within the classes plus that between their means, so it too is a sum.

    In directions in which the class means do not differ both distances grow alike, so samples
    infinitely far away can be accepted. The threshold is found on the starting classes and stays.

    Parameters are those of `Mahalanobis`; both covariances are shrunk.
    """

    accepts_bounded_region = False

    def _score_by(self, statistics: ClassStatistics, order: NDArray[np.intp]) -> Scorer:
        n_samples = float(statistics.counts.sum())
        centre = statistics.sums.sum(axis=0) / n_samples
        between = np.sqrt(statistics.counts)[:, np.newaxis] * (statistics.means - centre)
        covariance = (statistics.scatter + between.T @ between) / n_samples
        background = SharedGaussian.of(centre[np.newaxis], shrunk(covariance, n_samples, self.shrinkage))
        return _MinusRelativeDistance(self._class_gaussians(statistics, order), background)
