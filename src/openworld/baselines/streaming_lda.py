"""Streaming linear discriminant analysis: running class means and one running covariance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from openworld.baselines.base import Scorer
from openworld.baselines.mahalanobis import StatisticsRival, shrunk
from openworld.recognition import ClassStatistics, CrossClassValidation

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _LinearDiscriminants:
    weights: Floats
    biases: Floats

    def __call__(self, samples: NDArray[Any]) -> Floats:
        return np.asarray(samples.astype(np.float64) @ self.weights + self.biases)


class StreamingLDA(StatisticsRival):
    """Linear discriminants of running class means and one running covariance (Deep SLDA).

    Hayes & Kanan, "Lifelong machine learning with deep streaming linear discriminant analysis", CVPR
    Workshops 2020. Class k scores ``w_k . z + b_k`` with ``w_k = Lambda mu_k``, ``b_k = -mu_k . Lambda mu_k / 2``
    and ``Lambda = [(1 - eps) Sigma + eps I]^-1``. As in the authors' code Sigma starts, on the samples given
    to `fit`, as the covariance shrunk by oracle approximating shrinkage, and later samples add to it.

    One difference: the paper adds ``t / (t + 1) (z - mu_y)(z - mu_y)^T`` for the sample at time t, with mu_y
    the mean before it, and 0 for a class not seen before; that depends on the order, and counts the
    first sample of a class as if its class mean were the origin. With n_y samples of the class
    before it, ``n_y / (n_y + 1)`` in place of ``t / (t + 1)`` makes the running sum the within-class scatter
    itself, in any order and any pieces (Welford), and this is what is added here.

    The paper does not reject; here a sample is unknown where its largest discriminant is below a
    threshold, found on the starting classes and kept. Discriminants are linear, so samples
    infinitely far away are accepted in many directions.

    Parameters
    ----------
    eps : float, default=1e-4
        The paper's shrinkage of the running covariance towards the identity.
    threshold : float or CrossClassValidation, optional
        By default cross-class validation with `BalancedAccuracy`.
    unknown_label : label, optional
        By default -1 for numbers and "unknown" for text.
    """

    accepts_bounded_region = False

    def __init__(
        self,
        *,
        eps: float = 1e-4,
        threshold: float | CrossClassValidation | None = None,
        unknown_label: Any = None,
    ) -> None:
        super().__init__(threshold=threshold, unknown_label=unknown_label)
        self.eps = eps

    def _train(self, X: NDArray[Any], codes: NDArray[np.intp], n_classes: int) -> Scorer:
        self._added_by_shrinkage: Floats | float = 0.0
        statistics = ClassStatistics("pooled").add(X, codes)
        n_samples = float(len(X))
        start = shrunk(statistics.scatter / n_samples, n_samples, None)
        self._added_by_shrinkage = n_samples * start - statistics.scatter
        self._trained = statistics
        return self._score_by(statistics, np.arange(n_classes))

    def _score_by(self, statistics: ClassStatistics, order: NDArray[np.intp]) -> Scorer:
        covariance = (statistics.scatter + self._added_by_shrinkage) / statistics.counts.sum()
        regularized = (1 - self.eps) * covariance
        regularized[np.diag_indices_from(regularized)] += self.eps
        means = statistics.means[order]
        weights = cho_solve(cho_factor(regularized, check_finite=False), means.T, check_finite=False)
        return _LinearDiscriminants(weights, -0.5 * np.einsum("kd,dk->k", means, weights))
