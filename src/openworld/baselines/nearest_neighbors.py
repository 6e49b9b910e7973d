"""Nearest-neighbor baselines: ratio of the nearest distances, and distance to the k-th neighbor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import normalize
from sklearn.utils._param_validation import Interval

from openworld.baselines.base import Baseline, Scorer
from openworld.index import ExactIndex
from openworld.recognition import CrossClassValidation

Floats = NDArray[np.float64]

_BLOCK = 1 << 20  # distances computed at a time
_LARGEST_RATIO = 0.999


@dataclass(frozen=True)
class Neighbors:
    """Stored samples sorted by class, and distances to them.

    Attributes
    ----------
    index : ExactIndex
        The samples, shape (n, D), sorted by class.
    starts : array of shape (K,)
        Where each class begins.
    """

    index: ExactIndex
    starts: NDArray[np.intp]

    @classmethod
    def of(cls, samples: NDArray[Any], codes: NDArray[np.intp], n_classes: int) -> Neighbors:
        """Store samples of classes 0 .. n_classes - 1."""
        order = np.argsort(codes, kind="stable")
        starts = np.searchsorted(codes[order], np.arange(n_classes))
        return cls(ExactIndex(samples[order].astype(np.float64)), starts)

    def blocks(self, samples: NDArray[Any]) -> Iterator[tuple[slice, Floats]]:
        """Yield the squared distances to all stored samples, block by block."""
        n_rows = max(1, _BLOCK // len(self.index))
        for start in range(0, len(samples), n_rows):
            rows = slice(start, start + n_rows)
            squared = self.index.squared_distances(samples[rows].astype(np.float64))
            yield rows, np.asarray(squared, dtype=np.float64)

    def to_classes(self, squared: Floats) -> Floats:
        """Return the distance to the nearest sample of each class, shape (n, K)."""
        return np.asarray(np.sqrt(np.minimum.reduceat(squared, self.starts, axis=1)))


@dataclass(frozen=True)
class _DistanceRatio:
    """Scores by the ratio of distances; `spacing` replaces the other class where there is only one."""

    neighbors: Neighbors
    spacing: float

    def __call__(self, samples: NDArray[Any]) -> Floats:
        scores = np.empty((len(samples), len(self.neighbors.starts)))
        for rows, squared in self.neighbors.blocks(samples):
            scores[rows] = self._scores(self.neighbors.to_classes(squared))
        return scores

    def _scores(self, distances: Floats) -> Floats:
        if distances.shape[1] == 1:
            return np.asarray(-distances / (distances + self.spacing))
        first, second = np.partition(distances, 1, axis=1)[:, :2].T
        scores = _ratio(first[:, np.newaxis], distances) - 2
        scores[np.arange(len(scores)), distances.argmin(axis=1)] = -_ratio(first, second)
        return scores


def _ratio(nearer: Floats, farther: Floats) -> Floats:
    """Return the ratio of two distances, 1 where both are 0."""
    nearer, farther = np.broadcast_arrays(nearer, farther)
    ratios = np.ones(farther.shape)
    np.divide(nearer, farther, out=ratios, where=farther > 0)
    return ratios


class OpenSetNearestNeighbor(Baseline):
    """Open-set nearest neighbor by the ratio of two distances (OSNN).

    Mendes Júnior et al., "Nearest neighbors distance ratio open-set classifier", Machine Learning 2017:
    with t the nearest stored sample and u the nearest one of another class, a sample s is given the class
    of t if ``R = d(s, t) / d(s, u) <= T``, and is unknown otherwise. The score of the class of t is -R, so
    the threshold is -T; that of another class at distance d is ``d(s, t) / d - 2``, at most -1. Far away R
    tends to 1: the accepted region is bounded as long as T is below 1, and a calibrated T is kept there.

    There is no training: `partial_fit` stores the samples and recalibrates T on all of them. The paper
    finds T in the same way, with half of the classes playing unknown, but with another objective.

    A single known class, as calibration on two classes can leave, has no other class to compare with:
    ``d / (d + r)`` replaces the ratio, with r the typical distance between neighbors.

    Parameters
    ----------
    threshold, unknown_label
        As in `Baseline`. The threshold is -T.
    """

    accepts_bounded_region = True
    retrains = False

    def _train(self, X: NDArray[Any], codes: NDArray[np.intp], n_classes: int) -> Scorer:
        neighbors = Neighbors.of(X, codes, n_classes)
        return _DistanceRatio(neighbors, _spacing(neighbors) if n_classes == 1 else 1.0)

    def _find_threshold(self, X: NDArray[Any], codes: NDArray[np.intp]) -> float:
        found = super()._find_threshold(X, codes)
        return found if self._calibrator is None else max(found, -_LARGEST_RATIO)


def _spacing(neighbors: Neighbors) -> float:
    """Return the median distance of a stored sample to the nearest other one."""
    samples = neighbors.index.means
    if len(samples) == 1:
        return 1.0
    nearest = [np.partition(squared, 1, axis=1)[:, 1] for _, squared in neighbors.blocks(samples)]
    return float(np.sqrt(np.median(np.concatenate(nearest)))) or 1.0


@dataclass(frozen=True)
class _DistanceToNeighbor:
    """Minus the distance to the k-th neighbor, minus the extra distance of classes other than the nearest."""

    neighbors: Neighbors
    k: int

    def __call__(self, samples: NDArray[Any]) -> Floats:
        scores = np.empty((len(samples), len(self.neighbors.starts)))
        for rows, squared in self.neighbors.blocks(normalize(samples.astype(np.float64))):
            distances = self.neighbors.to_classes(squared)
            kth = np.sqrt(np.partition(squared, self.k - 1, axis=1)[:, self.k - 1 : self.k])
            scores[rows] = distances.min(axis=1, keepdims=True) - distances - kth
        return scores


class NearestNeighborDistance(Baseline):
    """Distance to the k-th nearest sample, after scaling all samples to unit length (deep kNN).

    Sun, Ming, Zhu, Li, "Out-of-distribution detection with deep nearest neighbors", ICML 2022,
    Algorithm 1: known if ``-|z - z_(k)| >= threshold``, where ``z = x / |x|`` and z_(k) is the k-th nearest
    of all stored samples. The paper takes the class from the network; here it is that of the nearest
    sample. The score of the nearest class is the paper's; that of another class is lower by its extra
    distance.

    The length of a sample is ignored, so samples infinitely far away can be accepted. There is no training:
    `partial_fit` stores the samples and recalibrates the threshold on all of them.

    Parameters
    ----------
    k : int, default=1
        Which neighbor; the last one if fewer are stored. The paper's 50 to 1000 are for thousands of
        samples per class; with tens of samples 1 was best on all data tried.
    threshold, unknown_label
        As in `Baseline`.
    """

    accepts_bounded_region = False
    retrains = False
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Baseline._parameter_constraints,
        "k": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        k: int = 1,
        threshold: float | CrossClassValidation | None = None,
        unknown_label: Any = None,
    ) -> None:
        super().__init__(threshold=threshold, unknown_label=unknown_label)
        self.k = k

    def _train(self, X: NDArray[Any], codes: NDArray[np.intp], n_classes: int) -> Scorer:
        neighbors = Neighbors.of(normalize(X.astype(np.float64)), codes, n_classes)
        return _DistanceToNeighbor(neighbors, min(self.k, len(X)))
