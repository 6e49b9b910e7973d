"""Streaming linear discriminant analysis: running class means and one running covariance."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import softmax
from sklearn.utils._param_validation import Interval

from openworld.baselines.base import Scorer
from openworld.baselines.mahalanobis import StatisticsBaseline, shrunk
from openworld.recognition import ClassStatistics, CrossClassValidation

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LinearDiscriminants:
    """Weights of shape (D, K) and biases of shape (K,); calling it scores every class."""

    weights: Floats
    biases: Floats

    def discriminants(self, samples: NDArray[Any]) -> Floats:
        """Return ``w_k . z + b_k``, shape (n, K)."""
        return np.asarray(samples.astype(np.float64) @ self.weights + self.biases)

    def __call__(self, samples: NDArray[Any]) -> Floats:
        """Return the softmax of the discriminants, shape (n, K)."""
        if len(self.biases) == 1:
            return np.full((len(samples), 1), 0.5)
        return np.asarray(softmax(self.discriminants(samples), axis=1))


class StreamingLDA(StatisticsBaseline):
    """Linear discriminants of running class means and one running covariance (Deep SLDA).

    Hayes & Kanan, "Lifelong machine learning with deep streaming linear discriminant analysis", CVPR
    Workshops 2020. The discriminant of class k is ``w_k . z + b_k`` with ``w_k = Lambda mu_k``,
    ``b_k = -mu_k . Lambda mu_k / 2`` and ``Lambda = [(1 - eps) Sigma + eps I]^-1``. Sigma is the within-class
    covariance of all samples so far, shrunk by oracle approximating shrinkage.

    The authors' code starts with the same Sigma but shrinks only the start, and for the sample at time t
    it adds ``t / (t + 1) (z - mu_y)(z - mu_y)^T``, with mu_y the mean before it, or 0 for a new class. That
    depends on the order, and treats the first sample of a class as if the class mean were the origin. With
    n_y samples of the class before it, ``n_y / (n_y + 1)`` instead of ``t / (t + 1)`` makes the running sum
    exactly the within-class scatter, in any order and any batches (Welford). This class does that.

    The paper does not reject. Here the score is the softmax of the discriminants, the probability that the
    authors' code returns; it separates unknown samples far better than the discriminants. Far away the
    softmax tends to 1 in nearly every direction, so samples infinitely far away are accepted. A single
    known class, as calibration on two classes leaves, scores 1/2: two classes then accept the likelier one.

    Parameters
    ----------
    eps : float, default=1e-4
        The paper's shrinkage of the running covariance towards the identity.
    threshold, unknown_label
        As in `Baseline`.
    """

    accepts_bounded_region = False
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **StatisticsBaseline._parameter_constraints,
        "eps": [Interval(Real, 0, 1, closed="right")],
    }

    def __init__(
        self,
        *,
        eps: float = 1e-4,
        threshold: float | CrossClassValidation | None = None,
        unknown_label: Any = None,
    ) -> None:
        super().__init__(threshold=threshold, unknown_label=unknown_label)
        self.eps = eps

    def _score_by(self, statistics: ClassStatistics, rows: NDArray[np.intp]) -> Scorer:
        n_samples = float(statistics.counts.sum())
        covariance = shrunk(statistics.scatter / n_samples, n_samples, None)
        regularized = (1 - self.eps) * covariance
        regularized[np.diag_indices_from(regularized)] += self.eps
        means = statistics.means[rows]
        weights = cho_solve(cho_factor(regularized, check_finite=False), means.T, check_finite=False)
        return LinearDiscriminants(weights, -0.5 * np.einsum("kd,dk->k", means, weights))
