"""Compact abating probability (CAP) models and the threshold without open space risk: Theorem 1, executable.

An abating model M has values that fall with the distance from a finite set of centers. M is thresholded
as the paper's novelty detector does it, with a strict inequality (below Eq. 7),

    M_tau(x) = M(x) if M(x) > tau, else 0

and recognizes x where M_tau(x) > 0. Strict, because a model that is exactly 0 far away, such as the cone
of Eq. 8, must recognize nothing there at tau = 0.

Two methods make the theorems executable, and each model derives them from those of its parts:
`bound` (how large can the value be this far from every center?) and `reach` (how far from the centers
can the value exceed a threshold?). `zero_risk_threshold` is the tau* of Theorem 1. Where the paper's
statements need a condition or a correction, docs/theory.md says so.
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

# A k-d tree is quicker than all distances in few dimensions only.
_TREE_DIMENSIONS = 8
_CHUNK_DISTANCES = 1 << 21


def as_points(X: ArrayLike, n_features: int | None = None) -> Floats:
    """Return finite float64 points of shape (n, D), or say what is wrong with them."""
    points: Floats = check_array(X, dtype=np.float64)
    if n_features is not None and points.shape[1] != n_features:
        raise ValueError(f"X has {points.shape[1]} features, but {n_features} are expected.")
    return points


class NearestSample:
    """Distances from points to the nearest of a finite set of samples, in memory that stays small."""

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
    """A recognition function with values at least 0 that abate with the distance from its centers.

    Attributes
    ----------
    centers : array of shape (k, D)
        The points the value is highest at: training samples, or class means. Not to be changed.
    """

    centers: Floats

    @abstractmethod
    def value(self, X: ArrayLike) -> Floats:
        """Return M(x) for each row of X, shape (n,)."""

    @abstractmethod
    def bound(self, distance: float) -> float:
        """Return a number that M(x) does not exceed where x is at least `distance` from every center.

        It never grows with the distance. It is the smallest such number for a single model and for
        combinations of models with the same centers; it may be larger than needed otherwise.
        """

    @abstractmethod
    def reach(self, threshold: float) -> float:
        """Return the distance from the nearest center beyond which M(x) <= `threshold`.

        It is the smallest distance with ``bound(distance) <= threshold``, up to rounding; infinite where
        the value exceeds the threshold arbitrarily far away. ``reach(0)`` bounds the support.
        """


# -- single models --------------------------------------------------------------------------------


class RadialModel(AbatingModel):
    """A model ``M(x) = a(min_i |x - center_i|)`` with a function a from 1 at distance 0 down to 0."""

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
        The distance, not a probability, from which the value is 0.
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

    This is the probability that a Weibull variable with this shape and scale exceeds d, or, which is the
    same, the reversed Weibull distribution function at -d. It is not the inverse Weibull (Fréchet)
    distribution, which scipy calls `invweibull`.

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
        """Return M(x) where it exceeds the threshold and 0 elsewhere, shape (n,)."""
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

    and not ``min_j tau_j``, which the paper's proof takes: docs/theory.md has the counterexample. It is
    the smallest such threshold where all models have the samples for centers; for models with
    different centers, and after a linear map, a smaller one may do.

    Parameters
    ----------
    model : AbatingModel
    r : float
        The radius of Eq. 3, at least 0.
    samples : array of shape (N, D), optional
        The training samples x_i of Eq. 3; by default the model's centers. Give them when the centers are
        class means: a ball around a mean is inside the balls around the samples for certain only if its
        radius is r less the distance from the mean to its nearest sample.

    Returns
    -------
    float
        At `model.bound(0)` and above the model recognizes nothing: no risk, and no use.
    """
    r, gap = checked_distance(r), 0.0
    if samples is not None:
        known = as_points(samples, model.centers.shape[1])
        gap = float(NearestSample(known).distances(model.centers).max())
    return model.bound(max(0.0, r - gap))


def frozen(array: Floats) -> Floats:
    """Return a copy that cannot be changed."""
    array = array.copy()
    array.setflags(write=False)
    return array


def _positive(number: Any, name: str) -> float:
    if not 0 < float(number) < np.inf:
        raise ValueError(f"{name} must be positive and finite; got {number!r}.")
    return float(number)


def checked_threshold(threshold: float) -> float:
    """Return a threshold that is finite and not negative."""
    if not 0 <= threshold < np.inf:
        raise ValueError(f"A threshold must be finite and at least 0; got {threshold!r}.")
    return float(threshold)


def checked_distance(distance: float) -> float:
    """Return a distance that is finite and not negative."""
    if not 0 <= distance < np.inf:
        raise ValueError(f"A distance must be finite and at least 0; got {distance!r}.")
    return float(distance)
