"""Representation: the fixed map of the features that precedes the whitening of the adaptive metric."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn import config_context

from openworld.recognition.metric.ncm import same_metric
from openworld.recognition.validation import as_float

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

MANY_FEATURES = 1024  # for a lift: with more it often does not pay
_SAMPLES_AT_ONCE = 16384
_ROWS_AT_ONCE = 256  # few enough to stay in a processor's cache
_LEAST_WITHIN = 1e-3
_ONE_UNIT = 10.0  # features whose deviations differ by less are taken to have the same unit
_MOST_DRAWN = 2**28  # numbers
_FAR = 1e6  # deviations from the mean; all that lies farther away is equally far
_LARGEST = np.finfo(np.float64).max / 4  # so that a standardized sample from afar stays finite


@dataclass(frozen=True)
class Representation:
    """A fixed map of samples: power, direction, and a random lift if chosen.

    0. Transform by the `preprocessing` of the user, if there is one.
    1. Standardize, if asked: subtract `mean`, divide by `scale`. Without `directions` step 6 follows.
    2. Signed square root of each feature, which tames counts and bursts.
    3. If standardized, append a constant as long as a typical sample, so that the length of a sample is
       not lost in the next step.
    4. Divide by the length: what remains is a direction.
    5. Lift, if asked: ``max(0, P x)`` with `n_lifted` rows P, drawn from `seed`: as long as Gaussian ones,
       and for up to 1,024 features orthogonal in blocks, which covers the directions more evenly. They may be
       `stretched`, or those of more features along `axes`.
    6. Without `directions`, lift, if asked: ``cos(P x + p)`` with random phases p. These are random Fourier
       features (Rahimi and Recht, 2007): their dot product is a Gaussian kernel of the distance.

    Attributes
    ----------
    n_features : int
        After step 0.
    n_lifted : int
        0 for no lift.
    seed : int
        Determines P.
    mean, scale : arrays of shape (n_features,), or None
        Of the starting classes; None does not standardize.
    length : float
        The root mean square length after step 2, for step 3.
    directions : bool
        False keeps the standardized features as they are, for few features whose lengths matter.
    preprocessing : transformer or None
        Fitted.
    axes : array of shape (n_features, m), one more row if standardized, or None
        With A for the axes, the rows P of the lift of many features become ``P + A A^T P``.
    """

    n_features: int
    n_lifted: int = 0
    seed: int = 0
    mean: Doubles | None = None
    scale: Doubles | None = None
    length: float = 1.0
    directions: bool = True
    preprocessing: Any = None
    axes: Floats | None = None

    @classmethod
    def of(
        cls,
        X: NDArray[Any],
        labels: NDArray[Any] | None = None,
        *,
        standardize: bool,
        n_lifted: int,
        seed: int,
        directions: bool = True,
    ) -> Representation:
        """Fit the representation to the samples of the starting classes.

        Without `directions` the scale of a feature is its deviation within the classes, if labels are given;
        with a lift, features of the same unit have the same scale.
        """
        if not standardize:
            return cls(X.shape[1], n_lifted, seed)
        X = as_float(X)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused below
            mean = X.mean(axis=0, dtype=np.float64)
            scale = X.std(axis=0, dtype=np.float64)
        if not np.all(np.isfinite(scale)):
            raise ValueError("X holds values too large to be standardized. Check X for wrong values.")
        varying = scale > 10 * np.finfo(np.float32).eps * np.abs(mean)
        if not directions:
            one_unit = n_lifted and have_one_unit(scale[varying])
            scale = _scale_within(X, labels, mean, scale) if labels is not None else scale
            scale = np.where(varying, scale, 1.0)
            if one_unit:
                scale = np.full_like(scale, np.sqrt(np.mean(scale[varying] ** 2)))
            return cls(X.shape[1], n_lifted, seed, mean, scale, directions=False)
        scale = np.where(varying, scale, 1.0)
        lengths = np.abs((X - mean) / scale).sum(axis=1)  # the squared length of the signed square root
        length = float(np.sqrt(lengths.mean())) or 1.0
        return cls(X.shape[1], n_lifted, seed, mean, scale, length)

    @property
    def n_dimensions(self) -> int:
        """The number of output dimensions."""
        return self.n_lifted or self._n_directions

    @property
    def keeps_distances(self) -> bool:
        """Whether the distances between samples tell more than the angles."""
        return not self.directions and not self.n_lifted

    @property
    def _n_directions(self) -> int:
        return self.n_features + (self.mean is not None and not self.keeps_distances)

    @property
    def rows_follow(self) -> bool:
        """Whether the rows of the lift follow from `seed` and `axes`, and were not given."""
        return self.draws_alike and np.array_equal(replace(self).rows, self.rows)

    @property
    def draws_alike(self) -> bool:
        """Whether every machine draws the same rows: those of many features, unless they take gigabytes."""
        may_be = self._has_many_features and self._n_directions * self.n_lifted <= _MOST_DRAWN
        return may_be and isinstance(self.seed, Integral)

    @property
    def _has_many_features(self) -> bool:
        return self.directions and self.n_features > MANY_FEATURES

    @cached_property
    def rows(self) -> Floats:
        """The rows P of the lift, as columns: shape (n_features, n_lifted), one more if standardized: of the
        constant, or the phases p.

        They are float16 numbers, which take half the room in a model file, until `scaled_to` a class. Those
        of many features follow from `seed` and `axes` on every machine.
        """
        if self._has_many_features:  # Gaussian rows of so many values are nearly orthogonal
            rows = _nearly_gaussian(self.seed, (self._n_directions, self.n_lifted))
            if self.axes is None:
                return rows
            axes = self.axes.astype(np.float64)  # which leaves hardly any difference to the rounding below
            return rounded(rows + axes @ (axes.T @ rows))
        random, n = np.random.default_rng(self.seed), self._n_directions - (not self.directions)
        blocks = [np.empty((n, 0), dtype=np.float32)]
        for _ in range(0, self.n_lifted, n):
            block, _ = np.linalg.qr(random.standard_normal((n, n), dtype=np.float32))
            blocks.append(block * np.sqrt(random.chisquare(n, n)).astype(np.float32))
        rows = np.hstack(blocks)[:, : self.n_lifted]
        if not self.directions:
            rows = np.vstack([rows, random.uniform(0, 2 * np.pi, self.n_lifted).astype(np.float32)])
        return rounded(rows)

    def with_rows(self, rows: Floats) -> Representation:
        """Return the map with given rows of the lift, from a model file, instead of drawing them."""
        other = replace(self)
        vars(other)["rows"] = rows  # where cached_property looks first
        return other

    def stretched(self, spread: Doubles) -> Representation:
        """Return the map with rows of the lift that are longer where samples spread more.

        P is multiplied by the fourth root of `spread`, the covariance of samples after step 4. Rows that are
        alike in all directions spend most of the lift on those in which samples hardly differ.
        """
        values, vectors = np.linalg.eigh(spread)
        rows = (vectors * np.maximum(values, 0) ** 0.25) @ vectors.T @ self.rows
        length = np.linalg.norm(rows)
        return self.with_rows(rounded(rows * (np.linalg.norm(self.rows) / length))) if length else self

    def scaled_to(self, within: Doubles) -> Representation:
        """Return the map with rows of random Fourier features at the scale of a class.

        P is multiplied by the inverse fourth root of `within`, the covariance of a class after step 1, so
        that directions in which a class is broad say less, and scaled so that two samples of a class differ
        by about a radian. A narrower kernel tells full classes apart better, but those of few samples worse.
        """
        values, vectors = np.linalg.eigh(within)
        values = np.maximum(values, _LEAST_WITHIN**2)
        rows, phases = self.rows[:-1], self.rows[-1:]
        rows = (vectors * values**-0.25) @ vectors.T @ rows / np.sqrt(2 * np.sum(values**0.5))
        return self.with_rows(np.asarray(np.vstack([rows, phases]), dtype=np.float32, order="C"))

    def after(self, preprocessing: Any) -> Representation:
        """Return the map preceded by a transformer."""
        other = replace(self, preprocessing=preprocessing)
        return other.with_rows(self.rows) if self.n_lifted else other

    def is_same(self, other: Representation) -> bool:
        """Return whether both are the same map."""
        if not same_metric(self.preprocessing, other.preprocessing):
            return False
        same = (self.n_features, self.n_lifted, self.length, self.directions) == (
            other.n_features,
            other.n_lifted,
            other.length,
            other.directions,
        )
        same = same and (not self.n_lifted or np.array_equal(self.rows, other.rows))
        if self.mean is None or other.mean is None or self.scale is None or other.scale is None:
            return same and self.mean is other.mean
        return same and np.array_equal(self.mean, other.mean) and np.array_equal(self.scale, other.scale)

    def __call__(self, X: NDArray[Any]) -> Floats:
        """Map samples, shape (n, D), to float32 of shape (n, n_dimensions)."""
        X = preprocessed(self.preprocessing, X)
        directions = np.empty((len(X), self._n_directions), dtype=np.float32)
        for start in range(0, len(X), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            directions[rows] = self._directions(as_float(X[rows]))
        if not self.n_lifted:
            return directions
        lifted = directions @ self.rows
        if self.directions:
            return np.asarray(np.maximum(lifted, 0, out=lifted))
        return np.asarray(np.cos(lifted, out=lifted))

    def _directions(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return some samples after step 4."""
        if self.mean is not None and self.scale is not None:
            with np.errstate(over="ignore"):
                X = X - self.mean
                X /= self.scale
                np.clip(X, -_LARGEST, _LARGEST, out=X)
        if not self.directions:
            X = np.clip(X, -_FAR, _FAR)
            return X if self.keeps_distances else np.column_stack([X, np.ones(len(X), X.dtype)])
        rooted = np.empty((len(X), self._n_directions), X.dtype)
        sizes = np.abs(X, out=rooted[:, : self.n_features])
        np.sqrt(sizes, out=sizes)
        if self.mean is not None:
            rooted[:, -1] = self.length
        with np.errstate(over="ignore"):
            squares = np.einsum("ij,ij->i", rooted, rooted)
        if not np.isfinite(squares).all():  # sums of very large values; scaling changes no direction
            far = ~np.isfinite(squares)
            rooted[far] /= rooted[far].max(axis=1, keepdims=True)
            squares[far] = np.einsum("ij,ij->i", rooted[far], rooted[far])
        rooted /= np.maximum(np.sqrt(squares), 1e-30)[:, np.newaxis]
        if X.min(initial=0) < 0:  # which takes less time than the signs
            np.copysign(sizes, X, out=sizes)
        return rooted


def _nearly_gaussian(seed: int, shape: tuple[int, int]) -> Floats:
    """Return sums of 16 random signs over 4, which no change of numpy's distributions alters."""
    if not isinstance(seed, Integral):
        seed = int(np.random.default_rng(seed).integers(2**63))
    size = math.prod(shape)
    words = np.random.PCG64(seed).random_raw(-(-size // 4)).astype("<u8").view("<u2")[:size]
    return np.asarray((np.bitwise_count(words).astype(np.float32) - 8) / 2).reshape(shape)


def rounded(rows: NDArray[Any]) -> Floats:
    """Round to float16."""
    return np.asarray(rows.astype(np.float16, order="C"), dtype=np.float32)


def preprocessed(preprocessing: Any, X: NDArray[Any]) -> NDArray[Any]:
    """Transform samples by a fitted transformer, if there is one; the result is a dense array."""
    if preprocessing is None:
        return X
    with config_context(transform_output="default", assume_finite=True):
        found: Any = preprocessing.transform(X)
    return np.asarray(found.toarray() if hasattr(found, "toarray") else found)


def have_one_unit(deviations: Doubles) -> bool:
    """Return whether the deviations of features are similar enough for features of the same unit."""
    if not len(deviations):
        return False
    typical = np.sort(deviations)[(len(deviations) - 1) // 2]  # of two features the smaller one
    return bool(deviations.max() <= _ONE_UNIT * typical)


def _scale_within(X: NDArray[Any], labels: NDArray[Any], mean: Doubles, scale: Doubles) -> Doubles:
    """Return the deviation of each feature within the classes, at least a share of the overall one.

    Its square is the overall variance less that of the class means, so a few samples at a time will do.
    """
    _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    degrees = len(codes) - len(counts)
    if not degrees:
        return scale
    sums: Doubles = np.zeros((len(counts), X.shape[1]))
    for start in range(0, len(X), _SAMPLES_AT_ONCE):
        part = slice(start, start + _SAMPLES_AT_ONCE)
        n = len(codes[part])
        belongs = csr_array((np.ones(n), (codes[part], np.arange(n))), shape=(len(counts), n))
        sums += np.asarray(belongs @ (X[part] - mean))
    between = np.sum(sums**2 / counts[:, np.newaxis], axis=0)
    within = np.maximum(scale**2 * len(X) - between, 0) / degrees
    return np.asarray(np.maximum(np.sqrt(within), _LEAST_WITHIN * scale))
