"""Compact abating probability (CAP) models and the threshold of Theorem 1 that has no open space risk.

The value of an abating model M decreases with the distance from a finite set of centers. The thresholded
model uses a strict inequality, as the paper's novelty detector does (below Eq. 7),

    M_tau(x) = M(x) if M(x) > tau, else 0

and recognizes x where M_tau(x) > 0. The inequality is strict because a model that is exactly 0 far away,
such as the cone of Eq. 8, must recognize nothing there at tau = 0.

The theorems are computed with two methods, which combined models derive from those of their parts: `bound`
(the largest possible value at a distance from every center) and `reach` (the largest distance at which the
value can exceed a threshold). `zero_risk_threshold` is the tau* of Theorem 1. docs/theory.md lists the
conditions and corrections that the paper's statements need.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist
from sklearn.utils.validation import check_array

Floats = NDArray[np.float64]

# A k-d tree is faster than computing all distances only in few dimensions.
_TREE_DIMENSIONS = 8
_CHUNK_DISTANCES = 1 << 21


def as_points(X: ArrayLike, n_features: int | None = None) -> Floats:
    """Return finite float64 points of shape (n, D), or raise an error."""
    points: Floats = check_array(X, dtype=np.float64)
    if n_features is not None and points.shape[1] != n_features:
        raise ValueError(f"X has {points.shape[1]} features, but {n_features} are expected.")
    return points


class NearestSample:
    """Distances from points to the nearest of a finite set of samples, in bounded memory."""

    def __init__(self, samples: Floats) -> None:
        self.samples = samples
        self._tree = KDTree(samples) if samples.shape[1] <= _TREE_DIMENSIONS else None

    def distances(self, points: Floats) -> Floats:
        """Return the distance of each point to its nearest sample, shape (n,)."""
        if self._tree is not None:
            return np.asarray(self._tree.query(points)[0], dtype=np.float64)
        rows = max(1, _CHUNK_DISTANCES // len(self.samples))
        starts = range(0, len(points), rows)
        return np.concatenate([cdist(points[i : i + rows], self.samples).min(axis=1) for i in starts])


class AbatingModel(ABC):
    """A non-negative recognition function that decreases with the distance from its centers.

    Attributes
    ----------
    centers : array of shape (k, D)
        The points where the value is highest: training samples or class means. Read-only.
    """

    centers: Floats

    @abstractmethod
    def value(self, X: ArrayLike) -> Floats:
        """Return M(x) for each row of X, shape (n,)."""

    @abstractmethod
    def bound(self, distance: float) -> float:
        """Return an upper bound of M(x) for all x that are at least `distance` away from every center.

        It does not increase with the distance. It is the least upper bound for a single model and for
        combinations of models with the same centers; otherwise it may be larger than necessary.
        """

    @abstractmethod
    def reach(self, threshold: float) -> float:
        """Return the distance from the nearest center beyond which M(x) <= `threshold`.

        It is the smallest distance with ``bound(distance) <= threshold``, up to rounding; infinite if the
        value exceeds the threshold arbitrarily far away. ``reach(0)`` bounds the support.
        """


# -- single models --------------------------------------------------------------------------------


class RadialModel(AbatingModel):
    """A model ``M(x) = a(min_i |x - center_i|)``, where a falls from 1 at distance 0 toward 0."""

    def __init__(self, centers: ArrayLike) -> None:
        self.centers = frozen(as_points(centers))
        self._nearest = NearestSample(self.centers)

    @abstractmethod
    def abate(self, distances: Floats) -> Floats:
        """Return a(d), non-increasing, in [0, 1]."""

    def value(self, X: ArrayLike) -> Floats:
        """Return a(d) with d the distance to the nearest center, in [0, 1], shape (n,)."""
        return self.abate(self._nearest.distances(as_points(X, self.centers.shape[1])))

    def bound(self, distance: float) -> float:
        """Return a(distance), which is attained."""
        return float(self.abate(np.array([checked_distance(distance)]))[0])


class Cone(RadialModel):
    """The cone of Eq. 8 without its constant: ``max(0, 1 - d / tau)``.

    Parameters
    ----------
    centers : array of shape (k, D)
    tau : float
        The distance (not a probability) from which the value is 0.
    """

    def __init__(self, centers: ArrayLike, tau: float) -> None:
        super().__init__(centers)
        self.tau = _positive(tau, "tau")

    def abate(self, distances: Floats) -> Floats:
        """Return ``max(0, 1 - d / tau)``."""
        return np.maximum(0.0, 1.0 - distances / self.tau)

    def reach(self, threshold: float) -> float:
        """Return ``tau (1 - threshold)``, or 0 for thresholds from 1."""
        return self.tau * max(0.0, 1.0 - checked_threshold(threshold))


class ReversedWeibull(RadialModel):
    """The tail of extreme value theory: ``exp(-(d / scale)^shape)``.

    This is the probability that a Weibull variable with this shape and scale exceeds d, which equals the
    reversed Weibull distribution function at -d. It is not the inverse Weibull (Fréchet) distribution, which
    scipy calls `invweibull`.

    Parameters
    ----------
    centers : array of shape (k, D)
    shape, scale : float
        Both positive.
    """

    def __init__(self, centers: ArrayLike, shape: float, scale: float) -> None:
        super().__init__(centers)
        self.shape, self.scale = _positive(shape, "shape"), _positive(scale, "scale")

    def abate(self, distances: Floats) -> Floats:
        """Return ``exp(-(d / scale)^shape)``."""
        with np.errstate(over="ignore"):
            return np.exp(-((distances / self.scale) ** self.shape))

    def reach(self, threshold: float) -> float:
        """Return ``scale (-ln threshold)^(1 / shape)``: infinite at 0, and 0 for thresholds from 1."""
        threshold = checked_threshold(threshold)
        if threshold == 0:
            return np.inf
        return float(self.scale * max(0.0, -np.log(threshold)) ** (1 / self.shape))


class Gaussian(ReversedWeibull):
    """``exp(-d^2 / (2 sigma^2))``, which is `ReversedWeibull` with shape 2 and scale sqrt(2) sigma.

    Parameters
    ----------
    centers : array of shape (k, D)
    sigma : float
    """

    def __init__(self, centers: ArrayLike, sigma: float) -> None:
        self.sigma = _positive(sigma, "sigma")
        super().__init__(centers, 2.0, np.sqrt(2.0) * self.sigma)


# -- thresholds and combinations ------------------------------------------------------------------


class Thresholded(AbatingModel):
    """``M_tau(x) = M(x) if M(x) > tau, else 0``: x is recognized where the value is positive.

    Parameters
    ----------
    model : AbatingModel
    threshold : float
        tau, a value of the model, at least 0.
    """

    def __init__(self, model: AbatingModel, threshold: float) -> None:
        self.model, self.threshold = model, checked_threshold(threshold)
        self.centers = model.centers

    def value(self, X: ArrayLike) -> Floats:
        """Return M(x) where it exceeds the threshold and otherwise 0, shape (n,)."""
        value = self.model.value(X)
        return np.where(value > self.threshold, value, 0.0)

    def bound(self, distance: float) -> float:
        """Return the model's bound where it exceeds the threshold, else 0."""
        bound = self.model.bound(distance)
        return bound if bound > self.threshold else 0.0

    def reach(self, threshold: float) -> float:
        """Return the model's reach at the larger of the two thresholds."""
        return self.model.reach(max(checked_threshold(threshold), self.threshold))


# -- Theorem 1 ------------------------------------------------------------------------------------


def zero_risk_threshold(model: AbatingModel, r: float, samples: ArrayLike | None = None) -> float:
    """Return a threshold tau* at which the model has no open space risk (Theorem 1).

    The region ``{x : M(x) > tau*}`` lies inside the closed balls of radius r around the samples, so its
    part in open space (Eq. 3) is empty. Outside all balls no model exceeds its own
    ``tau_j = bound_j(r)``, hence tau* is

    - ``sum_j c_j tau_j`` for a weighted sum,
    - ``max_j tau_j`` for a maximum,
    - ``prod_j tau_j`` for a product,

    and not ``min_j tau_j`` as in the paper's proof; docs/theory.md has a counterexample. It is the smallest
    such threshold if the samples are the centers of all models. For models with different centers, and after
    a linear map, a smaller threshold may be enough.

    Parameters
    ----------
    model : AbatingModel
    r : float
        The radius of Eq. 3, at least 0.
    samples : array of shape (N, D), optional
        The training samples x_i of Eq. 3; by default the model's centers. Needed if the centers are class
        means: a ball around a mean surely lies inside the balls around the samples only if its radius is r
        minus the distance from the mean to its nearest sample.

    Returns
    -------
    float
        With a threshold of `model.bound(0)` or more the model recognizes nothing.
    """
    r, gap = checked_distance(r), 0.0
    if samples is not None:
        known = as_points(samples, model.centers.shape[1])
        gap = float(NearestSample(known).distances(model.centers).max())
    return model.bound(max(0.0, r - gap))


def frozen(array: Floats) -> Floats:
    """Return a read-only copy."""
    array = array.copy()
    array.setflags(write=False)
    return array


def _positive(number: Any, name: str) -> float:
    if not 0 < float(number) < np.inf:
        raise ValueError(f"{name} must be positive and finite; got {number!r}.")
    return float(number)


def checked_threshold(threshold: float) -> float:
    """Return the threshold, or raise an error if it is negative or not finite."""
    if not 0 <= threshold < np.inf:
        raise ValueError(f"A threshold must be finite and at least 0; got {threshold!r}.")
    return float(threshold)


def checked_distance(distance: float) -> float:
    """Return the distance, or raise an error if it is negative or not finite."""
    if not 0 <= distance < np.inf:
        raise ValueError(f"A distance must be finite and at least 0; got {distance!r}.")
    return float(distance)
