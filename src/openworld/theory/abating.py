"""Compact abating probability (CAP) models and their combinations: Theorems 1 and 2, executable.

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
from collections.abc import Callable, Sequence
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
# Beyond this distance a value that has not fallen to the threshold is taken never to.
_FARTHEST = 1e300


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
        self.centers = _frozen(as_points(centers))
        self._nearest = NearestSample(self.centers)

    @abstractmethod
    def abate(self, distances: Floats) -> Floats:
        """Return a(d), non-increasing, in [0, 1]."""

    def value(self, X: ArrayLike) -> Floats:
        """Return a(d) with d the distance to the nearest center, in [0, 1], shape (n,)."""
        return self.abate(self._nearest.distances(as_points(X, self.centers.shape[1])))

    def bound(self, distance: float) -> float:
        """Return a(distance), which is attained."""
        return float(self.abate(np.array([_checked_distance(distance)]))[0])


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
        return self.tau * max(0.0, 1.0 - _checked_threshold(threshold))


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
        threshold = _checked_threshold(threshold)
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
        self.model, self.threshold = model, _checked_threshold(threshold)
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
        return self.model.reach(max(_checked_threshold(threshold), self.threshold))


class _Combination(AbatingModel):
    """Models over one feature space; the centers are those of all of them."""

    def __init__(self, models: Sequence[AbatingModel]) -> None:
        self.models = tuple(models)
        if not self.models:
            raise ValueError("A combination needs at least one model.")
        if len({model.centers.shape[1] for model in self.models}) > 1:
            raise ValueError("All models of a combination must have the same number of features.")
        self.centers = _frozen(np.unique(np.vstack([model.centers for model in self.models]), axis=0))


class WeightedSum(_Combination):
    """``M(x) = sum_j c_j M_j(x)`` with 0 <= c_j <= 1 (Theorem 1). Values lie in [0, sum_j c_j].

    Parameters
    ----------
    models : sequence of AbatingModel
        Give them already `Thresholded` for the sum as the theorem writes it, ``sum_j c_j M_{j,tau_j}``.
    weights : sequence of float, optional
        The c_j; by default ``1 / n_models`` each, a convex combination.
    """

    def __init__(self, models: Sequence[AbatingModel], weights: Sequence[float] | None = None) -> None:
        super().__init__(models)
        n_models = len(self.models)
        self.weights = (1 / n_models,) * n_models if weights is None else tuple(map(float, weights))
        if len(self.weights) != n_models:
            raise ValueError(f"{n_models} models need as many weights; got {len(self.weights)}.")
        if not all(0 <= weight <= 1 for weight in self.weights):
            raise ValueError(f"Theorem 1 needs weights 0 <= c_j <= 1; got {list(self.weights)}.")

    def value(self, X: ArrayLike) -> Floats:
        """Return the weighted sum, shape (n,)."""
        points = as_points(X, self.centers.shape[1])
        total = np.zeros(len(points))
        for weight, model in zip(self.weights, self.models, strict=True):
            total += weight * model.value(points)
        return total

    def bound(self, distance: float) -> float:
        """Return the weighted sum of the bounds."""
        parts = zip(self.weights, self.models, strict=True)
        return float(sum(weight * model.bound(distance) for weight, model in parts))

    def reach(self, threshold: float) -> float:
        """Return where the weighted sum of the bounds falls to the threshold."""
        if _checked_threshold(threshold) == 0:
            parts = zip(self.weights, self.models, strict=True)
            return max((model.reach(0.0) for weight, model in parts if weight > 0), default=0.0)
        return _where_it_falls(self.bound, threshold)


class Maximum(_Combination):
    """``M(x) = max_j M_j(x)``: Theorem 1 for a maximum, for example over classes."""

    def value(self, X: ArrayLike) -> Floats:
        """Return the largest value of the models, shape (n,)."""
        points = as_points(X, self.centers.shape[1])
        return np.asarray(np.max([model.value(points) for model in self.models], axis=0))

    def bound(self, distance: float) -> float:
        """Return the largest of the bounds."""
        return max(model.bound(distance) for model in self.models)

    def reach(self, threshold: float) -> float:
        """Return the largest of the reaches."""
        return max(model.reach(threshold) for model in self.models)


class Product(_Combination):
    """``M(x) = prod_j M_j(x)``: Theorem 1 for a product. One factor of finite reach bounds the whole."""

    def value(self, X: ArrayLike) -> Floats:
        """Return the product of the models' values, shape (n,)."""
        points = as_points(X, self.centers.shape[1])
        return np.asarray(np.prod([model.value(points) for model in self.models], axis=0))

    def bound(self, distance: float) -> float:
        """Return the product of the bounds."""
        return float(np.prod([model.bound(distance) for model in self.models]))

    def reach(self, threshold: float) -> float:
        """Return where the product of the bounds falls to the threshold."""
        if _checked_threshold(threshold) == 0:
            return min(model.reach(0.0) for model in self.models)
        return _where_it_falls(self.bound, threshold)


class LinearlyMapped(AbatingModel):
    """``M(x) = M'(T'x)``: a model over a linearly transformed space (Theorem 2).

    With s the smallest of the D singular values of the map x -> T'x, ``|T'x - T'c| >= s |x - c|``, so
    what M' promises at distance s d holds for M at distance d. A map that takes some direction to zero,
    as every map to fewer dimensions does, has s = 0: M does not abate along that direction, its
    `bound` is constant and its `reach` infinite, whatever the threshold below the maximum. The reach in
    the mapped space is ``mapped.model.reach``.

    Parameters
    ----------
    model : AbatingModel
        M', over m features.
    T : array of shape (D, m)
        As W in Eq. 8.
    centers : array of shape (k, D), optional
        The training samples before the map, among them a preimage of every center of `model`. By default
        the preimages of least norm, which for a map to fewer dimensions need not be the samples.
    """

    def __init__(self, model: AbatingModel, T: ArrayLike, centers: ArrayLike | None = None) -> None:
        self.model, self.T = model, _frozen(as_points(T))
        n_features, n_mapped = self.T.shape
        if n_mapped != model.centers.shape[1]:
            raise ValueError(f"T maps to {n_mapped} dimensions; the model has {model.centers.shape[1]}.")
        preimages = model.centers @ np.linalg.pinv(self.T) if centers is None else centers
        self.centers = _frozen(as_points(preimages, n_features))
        gaps = NearestSample(self.centers @ self.T).distances(model.centers)
        if gaps.max() > 1e-9 * (1 + np.abs(model.centers).max()):
            raise ValueError("T takes no point of `centers` to a center of the model: check both.")
        self.smallest_singular_value = _smallest_singular_value(self.T)

    @property
    def is_injective(self) -> bool:
        """Whether T has rank D, so that no direction is lost."""
        return self.smallest_singular_value > 0

    def value(self, X: ArrayLike) -> Floats:
        """Return M'(T'x), shape (n,)."""
        return self.model.value(as_points(X, len(self.T)) @ self.T)

    def bound(self, distance: float) -> float:
        """Return the bound of M' at s times the distance."""
        return self.model.bound(self.smallest_singular_value * _checked_distance(distance))

    def reach(self, threshold: float) -> float:
        """Return the reach of M' divided by s, in the space before the map."""
        mapped = self.model.reach(threshold)
        if mapped == 0:
            return 0.0
        return mapped / self.smallest_singular_value if self.is_injective else np.inf


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
    r, gap = _checked_distance(r), 0.0
    if samples is not None:
        known = as_points(samples, model.centers.shape[1])
        gap = float(NearestSample(known).distances(model.centers).max())
    return model.bound(max(0.0, r - gap))


def _where_it_falls(bound: Callable[[float], float], threshold: float) -> float:
    """Return the smallest distance at which a non-increasing bound is at most the threshold."""
    if bound(0.0) <= threshold:
        return 0.0
    near, far = 0.0, 1.0
    while bound(far) > threshold:
        near, far = far, 2 * far
        if far > _FARTHEST:
            return np.inf
    while near < (middle := near + (far - near) / 2) < far:
        near, far = (middle, far) if bound(middle) > threshold else (near, middle)
    return far


def _smallest_singular_value(T: Floats) -> float:
    """Return the smallest of the D singular values of x -> T'x; 0 where rounding hides it."""
    n_features, n_mapped = T.shape
    if n_mapped < n_features:
        return 0.0
    singular_values = np.linalg.svd(T, compute_uv=False)
    smallest = float(singular_values[-1])
    return smallest if smallest > n_mapped * np.finfo(np.float64).eps * singular_values[0] else 0.0


def _frozen(array: Floats) -> Floats:
    array = array.copy()
    array.setflags(write=False)
    return array


def _positive(number: Any, name: str) -> float:
    if not 0 < float(number) < np.inf:
        raise ValueError(f"{name} must be positive and finite; got {number!r}.")
    return float(number)


def _checked_threshold(threshold: float) -> float:
    if not 0 <= threshold < np.inf:
        raise ValueError(f"A threshold must be finite and at least 0; got {threshold!r}.")
    return float(threshold)


def _checked_distance(distance: float) -> float:
    if not 0 <= distance < np.inf:
        raise ValueError(f"A distance must be finite and at least 0; got {distance!r}.")
    return float(distance)
