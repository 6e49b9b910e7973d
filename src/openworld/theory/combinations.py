"""Combinations of abating models (Theorem 1) and models after a linear map (Theorem 2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from openworld.theory.abating import (
    AbatingModel,
    Floats,
    NearestSample,
    as_points,
    checked_distance,
    checked_threshold,
    frozen,
)

# A bound that is above the threshold at this distance is assumed never to fall to it.
_FARTHEST = 1e300


class _Combination(AbatingModel):
    """Base class of combinations: models over one feature space, with the union of their centers."""

    def __init__(self, models: Sequence[AbatingModel]) -> None:
        self.models = tuple(models)
        if not self.models:
            raise ValueError("A combination needs at least one model.")
        if len({model.centers.shape[1] for model in self.models}) > 1:
            raise ValueError("All models of a combination must have the same number of features.")
        self.centers = frozen(np.unique(np.vstack([model.centers for model in self.models]), axis=0))


class WeightedSum(_Combination):
    """``M(x) = sum_j c_j M_j(x)`` with 0 <= c_j <= 1 (Theorem 1). Values lie in [0, sum_j c_j].

    Parameters
    ----------
    models : sequence of AbatingModel
        Pass `Thresholded` models for the sum as in the theorem, ``sum_j c_j M_{j,tau_j}``.
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
        if checked_threshold(threshold) == 0:
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
    """``M(x) = prod_j M_j(x)``: Theorem 1 for a product. Its reach is finite if that of one factor is."""

    def value(self, X: ArrayLike) -> Floats:
        """Return the product of the models' values, shape (n,)."""
        points = as_points(X, self.centers.shape[1])
        return np.asarray(np.prod([model.value(points) for model in self.models], axis=0))

    def bound(self, distance: float) -> float:
        """Return the product of the bounds."""
        return float(np.prod([model.bound(distance) for model in self.models]))

    def reach(self, threshold: float) -> float:
        """Return where the product of the bounds falls to the threshold."""
        if checked_threshold(threshold) == 0:
            return min(model.reach(0.0) for model in self.models)
        return _where_it_falls(self.bound, threshold)


class LinearlyMapped(AbatingModel):
    """``M(x) = M'(T'x)``: a model over a linearly transformed space (Theorem 2).

    Let s be the smallest of the D singular values of the map x -> T'x. Then ``|T'x - T'c| >= s |x - c|``, so
    the bound of M' at distance s d is a bound of M at distance d. A map that sends some direction to zero,
    as every map to fewer dimensions does, has s = 0: M does not abate along that direction, its `bound` is
    constant, and its `reach` is infinite for every threshold below the maximum. The reach in the mapped
    space is ``mapped.model.reach``.

    Parameters
    ----------
    model : AbatingModel
        M', over m features.
    T : array of shape (D, m)
        As W in Eq. 8.
    centers : array of shape (k, D), optional
        The training samples before the map, including a preimage of every center of `model`. By default the
        preimages of least norm, which may differ from the samples if the map is to fewer dimensions.
    """

    def __init__(self, model: AbatingModel, T: ArrayLike, centers: ArrayLike | None = None) -> None:
        self.model, self.T = model, frozen(as_points(T))
        n_features, n_mapped = self.T.shape
        if n_mapped != model.centers.shape[1]:
            raise ValueError(f"T maps to {n_mapped} dimensions; the model has {model.centers.shape[1]}.")
        preimages = model.centers @ np.linalg.pinv(self.T) if centers is None else centers
        self.centers = frozen(as_points(preimages, n_features))
        gaps = NearestSample(self.centers @ self.T).distances(model.centers)
        if gaps.max() > 1e-9 * (1 + np.abs(model.centers).max()):
            raise ValueError("T maps no point of `centers` to a center of the model. Check both.")
        self.smallest_singular_value = _smallest_singular_value(self.T)

    @property
    def is_injective(self) -> bool:
        """Whether T has rank D, so that no direction is mapped to zero."""
        return self.smallest_singular_value > 0

    def value(self, X: ArrayLike) -> Floats:
        """Return M'(T'x), shape (n,)."""
        return self.model.value(as_points(X, len(self.T)) @ self.T)

    def bound(self, distance: float) -> float:
        """Return the bound of M' at s times the distance."""
        return self.model.bound(self.smallest_singular_value * checked_distance(distance))

    def reach(self, threshold: float) -> float:
        """Return the reach of M' divided by s, in the space before the map."""
        mapped = self.model.reach(threshold)
        if mapped == 0:
            return 0.0
        return mapped / self.smallest_singular_value if self.is_injective else np.inf


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
    """Return the smallest of the D singular values of x -> T'x; 0 if it is not larger than rounding error."""
    n_features, n_mapped = T.shape
    if n_mapped < n_features:
        return 0.0
    singular_values = np.linalg.svd(T, compute_uv=False)
    smallest = float(singular_values[-1])
    return smallest if smallest > n_mapped * np.finfo(np.float64).eps * singular_values[0] else 0.0
