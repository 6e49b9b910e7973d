"""Mahalanobis distance to the class means, absolute and relative to a background Gaussian."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from sklearn.utils._param_validation import Interval

from openworld.baselines.base import Baseline, Scorer
from openworld.index import ExactIndex
from openworld.recognition import ClassStatistics, CrossClassValidation
from openworld.recognition.adaptive.metric import oracle_approximating_shrinkage
from openworld.recognition.adaptive.reservoir import Reservoir
from openworld.recognition.validation import as_array

Floats = NDArray[np.float64]

_LEAST_SHRINKAGE = 1e-6  # keeps the covariance of duplicated features invertible
_SAMPLES_PER_CLASS = 12


@dataclass(frozen=True)
class SharedGaussian:
    """Gaussians with several means and one covariance.

    Attributes
    ----------
    inverse_root : array of shape (D, D)
        Whitening map: after it the covariance is the identity.
    whitened_means : ExactIndex
    """

    inverse_root: Floats
    whitened_means: ExactIndex

    @classmethod
    def of(cls, means: Floats, covariance: Floats) -> SharedGaussian:
        """Build it from means of shape (K, D) and a positive definite covariance."""
        root = cholesky(covariance, lower=True, check_finite=False)
        identity = np.eye(len(root))
        inverse_root = solve_triangular(root, identity, lower=True, check_finite=False).T
        return cls(inverse_root, ExactIndex(means @ inverse_root))

    def squared_distances(self, samples: NDArray[Any]) -> Floats:
        """Return ``(x - mu_c)^T Sigma^-1 (x - mu_c)``, shape (n, K)."""
        whitened = samples.astype(np.float64) @ self.inverse_root
        return np.asarray(self.whitened_means.squared_distances(whitened))


def shrunk(covariance: Floats, n_samples: float, shrinkage: float | None) -> Floats:
    """Shrink a covariance towards a multiple of the identity, by default as much as OAS proposes."""
    if shrinkage is None:
        shrinkage = oracle_approximating_shrinkage(covariance, n_samples)
    level = float(np.trace(covariance)) / len(covariance) or 1.0
    result = (1 - shrinkage) * covariance
    result[np.diag_indices_from(result)] += max(shrinkage, _LEAST_SHRINKAGE) * level
    return np.asarray(result)


class StatisticsBaseline(Baseline):
    """Base of the baselines that score by counts, means and pooled scatter, all of them sums.

    Batches and order make no difference. It stores K x D and D x D numbers and a few samples of each class,
    with which every `partial_fit` recalibrates the threshold: Mahalanobis distances shrink as the
    covariance estimate improves, so a fixed threshold would drift. For calibration the few samples are
    subtracted from the statistics and scored by the rest, with some classes playing unknown as in
    cross-class validation; such a class loses its mean, but its scatter stays in the covariance.

    A subclass implements `_score_by(statistics, rows)`.
    """

    retrains = False

    def _score_by(self, statistics: ClassStatistics, rows: NDArray[np.intp]) -> Scorer:
        """Return the scorer of the classes in these rows; the covariance is that of all classes."""
        raise NotImplementedError

    def _learn(self, samples: NDArray[Any], labels: NDArray[Any]) -> None:
        self.statistics_ = ClassStatistics("pooled").add(samples, labels)
        self._reservoir = Reservoir(_SAMPLES_PER_CLASS, dtype=np.float64)
        self._reservoir.add(samples, labels)
        self._refresh()

    def _learn_more(self, samples: NDArray[Any], labels: NDArray[Any]) -> None:
        """Add the statistics of more samples."""
        self.statistics_ = self.statistics_ + ClassStatistics("pooled").add(samples, labels)
        self._reservoir = self._reservoir.copy()
        self._reservoir.add(samples, labels)
        self._refresh()

    def _refresh(self) -> None:
        labels = as_array(self.statistics_.labels)
        order = np.argsort(labels, kind="stable")
        self.classes_ = labels[order]
        calibrator = self._calibrator
        self.threshold_ = self._calibrated(calibrator) if calibrator else float(self.threshold)  # type: ignore[arg-type]
        self._scorer = self._score_by(self.statistics_, order)

    def _calibrated(self, calibrator: CrossClassValidation) -> float:
        samples, codes = self._held_out(calibrator.validation_fraction)
        rest = self.statistics_
        if len(codes):
            rest = rest - ClassStatistics("pooled").add(samples, self.classes_[codes])
        if rest.counts.sum() < len(rest) + 0.5:  # single samples have no scatter: keep that of all
            scatter = self.statistics_.scatter
            rest = ClassStatistics.restore(rest.labels, rest.counts, rest.sums, "pooled", scatter)
        rows = np.array([rest.row(label) for label in self.classes_])

        def outlyingness(known: NDArray[np.bool_]) -> Floats:
            return -self._score_by(rest, rows[known])(samples)

        return -calibrator.find(outlyingness, codes, len(rows)).tau

    def _held_out(self, fraction: float) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """Return that share of each class's samples, or as many as the reservoir has, and their codes."""
        samples, codes = self._reservoir.samples(self.classes_, self._reservoir.per_class)
        counts = np.array([self.statistics_.count(label) for label in self.classes_])
        wanted = np.minimum(np.ceil(fraction * counts - 1e-9), counts - 1)
        held = np.arange(len(codes)) - np.searchsorted(codes, codes) < wanted[codes]
        return samples[held], codes[held]


@dataclass(frozen=True)
class _MinusSquaredDistance:
    classes: SharedGaussian

    def __call__(self, samples: NDArray[Any]) -> Floats:
        return -self.classes.squared_distances(samples)


class Mahalanobis(StatisticsBaseline):
    """Minus the squared Mahalanobis distance to each class mean, with one covariance for all classes.

    Lee, Lee, Lee, Shin, "A simple unified framework for detecting out-of-distribution samples and
    adversarial attacks", NeurIPS 2018: means and tied covariance of Eq. 1, confidence score of Eq. 2,
    without input perturbation and without an ensemble of layers. The covariance is shrunk (Chen et al.
    2010), because it has no inverse where samples are few. The accepted region is a union of ellipsoids,
    so it is bounded.

    Parameters
    ----------
    shrinkage : float, optional
        Share of the covariance replaced by a multiple of the identity; by default that of oracle
        approximating shrinkage. The paper uses 0.
    threshold, unknown_label
        As in `Baseline`.
    """

    accepts_bounded_region = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Baseline._parameter_constraints,
        "shrinkage": [Interval(Real, 0, 1, closed="both"), None],
    }

    def __init__(
        self,
        *,
        shrinkage: float | None = None,
        threshold: float | CrossClassValidation | None = None,
        unknown_label: Any = None,
    ) -> None:
        super().__init__(threshold=threshold, unknown_label=unknown_label)
        self.shrinkage = shrinkage

    def _class_gaussians(self, statistics: ClassStatistics, rows: NDArray[np.intp]) -> SharedGaussian:
        """Return class means and tied covariance, ``1/N sum_c sum_i (x_i - mu_c)(x_i - mu_c)^T`` (Eq. 1)."""
        n_samples = float(statistics.counts.sum())
        covariance = shrunk(statistics.scatter / n_samples, n_samples, self.shrinkage)
        return SharedGaussian.of(statistics.means[rows], covariance)

    def _score_by(self, statistics: ClassStatistics, rows: NDArray[np.intp]) -> Scorer:
        return _MinusSquaredDistance(self._class_gaussians(statistics, rows))


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
    near-OOD detection", 2021: ``RMD_k(x) = MD_k(x) - MD_0(x)``, and the score is ``-min_k RMD_k``. The
    background's scatter is that within the classes plus that between their means, so it is a sum too.

    Along directions in which the class means do not differ both distances grow alike, so samples infinitely
    far away can be accepted. A single known class, as calibration on two classes leaves, is its own
    background and scores 0: two classes then accept samples nearer to a class than to the background.

    Parameters are those of `Mahalanobis`; both covariances are shrunk.
    """

    accepts_bounded_region = False

    def _score_by(self, statistics: ClassStatistics, rows: NDArray[np.intp]) -> Scorer:
        counts, n_samples = statistics.counts[rows], float(statistics.counts.sum())
        center = statistics.sums[rows].sum(axis=0) / counts.sum()
        between = np.sqrt(counts / counts.sum())[:, np.newaxis] * (statistics.means[rows] - center)
        covariance = statistics.scatter / n_samples + between.T @ between
        background = SharedGaussian.of(center[np.newaxis], shrunk(covariance, n_samples, self.shrinkage))
        return _MinusRelativeDistance(self._class_gaussians(statistics, rows), background)
