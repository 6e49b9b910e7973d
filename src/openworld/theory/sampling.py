"""Open space (Eq. 3), and importance sampling for the integrals over it.

The integrals of Eq. 4 are over a ball S_o. In many dimensions almost all of a ball is far from any data, so
uniform points never hit the neighborhoods of the samples. Points are therefore drawn from a mixture: uniform
in S_o, and around the samples at distances whose *logarithm* is uniform, which covers all scales equally.
Each point is weighted by the uniform density divided by the mixture density (balance heuristic), computed in
logarithms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from openworld.theory.abating import AbatingModel, Floats, NearestSample, as_points

Booleans = NDArray[np.bool_]

# Radius of the mixture's innermost balls, relative to r.
_SMALLEST_SCALE = 0.01
_MAX_CENTERS = 2000
_CHUNK_DISTANCES = 1 << 20


class OpenSpace:
    """Open space ``O = S_o - union_i B_r(x_i)`` (Eq. 3): the points of S_o that are near no training sample.

    S_o is the closed ball of radius R around the mean of the samples, and must contain all of them.

    Parameters
    ----------
    X : array of shape (N, D)
        The known training samples x_i.
    r : float
        The radius of the closed balls around the samples.
    R : float
        The radius of S_o; the paper's r_o.
    """

    def __init__(self, X: ArrayLike, r: float, R: float) -> None:
        self.samples = as_points(X)
        if not 0 < r < R < np.inf:
            raise ValueError(f"The radii must be 0 < r < R < infinity; got r={r!r}, R={R!r}.")
        self.r, self.R = float(r), float(R)
        self.center: Floats = self.samples.mean(axis=0)
        self._nearest = NearestSample(self.samples)
        farthest = np.linalg.norm(self.samples - self.center, axis=1).max()
        if farthest > self.R:
            raise ValueError(
                f"S_o must contain all samples: R must be at least {farthest:.6g} here; got {self.R:.6g}."
            )

    def within_ball(self, points: Floats) -> Booleans:
        """Return which points lie in S_o, shape (n,)."""
        return np.asarray(np.linalg.norm(points - self.center, axis=1) <= self.R)

    def contains(self, points: ArrayLike) -> Booleans:
        """Return which points lie in open space, shape (n,)."""
        checked = as_points(points, self.samples.shape[1])
        return self.within_ball(checked) & (self._nearest.distances(checked) > self.r)


@dataclass(frozen=True)
class Sampling:
    """How points are drawn for the integrals of Eq. 4.

    Parameters
    ----------
    n_samples : int, default=50_000
    uniform_share : float, default=0.25
        Share of points drawn uniformly in S_o, in (0, 1]. 1 is plain Monte Carlo, which works only in few
        dimensions. The other points are drawn around the samples, the mean of the samples, and the class
        means or centers of the model.
    confidence : float, default=0.95
        Confidence level of the interval, in (0, 1).
    random_state : int, default=0
    """

    n_samples: int = 50_000
    uniform_share: float = 0.25
    confidence: float = 0.95
    random_state: int = 0

    def __post_init__(self) -> None:
        if self.n_samples < 2:
            raise ValueError(f"n_samples must be at least 2; got {self.n_samples!r}.")
        if not 0 < self.uniform_share <= 1:
            raise ValueError(f"uniform_share must be in (0, 1]; got {self.uniform_share!r}.")
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence must be in (0, 1); got {self.confidence!r}.")


def proposal_centers(space: OpenSpace, recognition: Any, random: np.random.Generator) -> Floats:
    """Return the points of S_o to draw around: samples, their mean, class means or a model's centers."""
    parts = [space.center[np.newaxis], space.samples]
    if isinstance(recognition, AbatingModel):
        parts.append(recognition.centers)
    elif hasattr(recognition, "statistics_"):
        parts.append(np.asarray(recognition.statistics_.means))
    chosen = [
        part if len(part) <= _MAX_CENTERS else random.choice(part, _MAX_CENTERS, False) for part in parts
    ]
    centers = np.unique(np.vstack(chosen), axis=0)
    return centers[space.within_ball(centers)]


class Proposal:
    """The mixture distribution from which points are drawn.

    Around a center the density at distance s <= R is ``max(s, s_0)^-D / (1 + D ln(R / s_0))``, up to the
    volume of the unit ball, which cancels: uniform in the ball of radius s_0, and log s uniform beyond.
    """

    def __init__(
        self, space: OpenSpace, centers: Floats, sampling: Sampling, random: np.random.Generator
    ) -> None:
        self.space, self.centers, self.random = space, centers, random
        n_uniform = max(1, round(sampling.uniform_share * sampling.n_samples))
        self._is_uniform = np.arange(sampling.n_samples) < n_uniform
        self._smallest = _SMALLEST_SCALE * space.r
        self._log_range = np.log(space.R / self._smallest)

    def draw(self) -> Iterator[tuple[Floats, Floats]]:
        """Yield points in chunks, with their log weights."""
        rows = max(1, _CHUNK_DISTANCES // len(self.centers))
        for start in range(0, len(self._is_uniform), rows):
            points = self._points(self._is_uniform[start : start + rows])
            yield points, self.log_weights(points)

    def _points(self, is_uniform: Booleans) -> Floats:
        n, n_features = len(is_uniform), self.centers.shape[1]
        directions = self.random.standard_normal((n, n_features))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        origins = self.centers[self.random.integers(len(self.centers), size=n)]
        origins[is_uniform] = self.space.center
        in_ball = self.random.random(n) ** (1 / n_features)
        beyond = np.exp(self._log_range * self.random.random(n))
        is_inner = self.random.random(n) < 1 / (1 + n_features * self._log_range)
        radii = np.where(
            is_uniform, self.space.R * in_ball, self._smallest * np.where(is_inner, in_ball, beyond)
        )
        return np.asarray(origins + radii[:, np.newaxis] * directions)

    def log_weights(self, points: Floats) -> Floats:
        """Return the log of the uniform density over the mixture density; minus infinity outside S_o."""
        n_features, share = self.centers.shape[1], self._is_uniform.mean()
        log_uniform = -n_features * np.log(self.space.R)
        distances = cdist(points, self.centers)
        log_near = -n_features * np.log(np.maximum(distances, self._smallest))
        log_near[distances > self.space.R] = -np.inf
        normalizer = np.log1p(n_features * self._log_range) + np.log(len(self.centers))
        with np.errstate(divide="ignore"):
            near = np.log1p(-share) + logsumexp(log_near, axis=1) - normalizer
        log_weights = log_uniform - np.logaddexp(np.log(share) + log_uniform, near)
        return np.where(self.space.within_ball(points), log_weights, -np.inf)
