"""Baselines that keep every sample: the ratio of nearest distances, and the distance to the k-th neighbor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.baselines.base import Baseline, Scorer
from openworld.index import ExactIndex
from openworld.recognition import CrossClassValidation

Floats = NDArray[np.float64]

_BLOCK = 1 << 20  # distances worked on at a time
_LARGEST_RATIO = 0.999


@dataclass(frozen=True)
class Neighbors:
    """Stored samples in the order of their classes, and distances to them.

    Attributes
    ----------
    index : ExactIndex
        The samples, shape (n, D), class after class.
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
        """Yield the squared distances of some samples at a time to all that is stored."""
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
    """Scores by the ratio of distances; `spacing` stands in for the other class where there is only one."""

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

    Nothing is trained: every sample is stored, and `partial_fit` stores more and calibrates T anew on
    all of them. The paper finds T likewise, with half of the classes playing unknown, but for another
    objective.

    A single known class, which calibration on two classes can leave, has no other class to compare
    with: ``d / (d + r)`` stands in for the ratio, with r the typical distance between neighbors.

    Parameters
    ----------
    threshold : float or CrossClassValidation, optional
        -T, or how to find it; by default cross-class validation with `MinOpenWorldError`.
    unknown_label : label, optional
        By default -1 for numbers and "unknown" for text.
    """

    accepts_bounded_region = True
    retrains = False

    def _train(self, X: NDArray[Any], codes: NDArray[np.intp], n_classes: int) -> Scorer:
        neighbors = Neighbors.of(X, codes, n_classes)
        return _DistanceRatio(neighbors, _spacing(neighbors) if n_classes == 1 else 1.0)

    def _find_threshold(self, X: NDArray[Any], codes: NDArray[np.intp]) -> float:
        found = super()._find_threshold(X, codes)
        calibrated = self.threshold is None or isinstance(self.threshold, CrossClassValidation)
        return max(found, -_LARGEST_RATIO) if calibrated else found


def _spacing(neighbors: Neighbors) -> float:
    """Return the median distance of a stored sample to the nearest other one."""
    samples = neighbors.index.means
    if len(samples) == 1:
        return 1.0
    nearest = [np.partition(squared, 1, axis=1)[:, 1] for _, squared in neighbors.blocks(samples)]
    return float(np.sqrt(np.median(np.concatenate(nearest)))) or 1.0


@dataclass(frozen=True)
class _DistanceToNeighbor:
    """Minus the distance to the k-th neighbor, less what a class is farther away than the nearest one."""

    neighbors: Neighbors
    k: int

    def __call__(self, samples: NDArray[Any]) -> Floats:
        scores = np.empty((len(samples), len(self.neighbors.starts)))
        for rows, squared in self.neighbors.blocks(_unit(samples)):
            distances = self.neighbors.to_classes(squared)
            kth = np.sqrt(np.partition(squared, self.k - 1, axis=1)[:, self.k - 1 : self.k])
            scores[rows] = distances.min(axis=1, keepdims=True) - distances - kth
        return scores


class NearestNeighborDistance(Baseline):
    """Distance to the k-th nearest sample, all samples divided by their length (deep kNN).

    Sun, Ming, Zhu, Li, "Out-of-distribution detection with deep nearest neighbors", ICML 2022,
    Algorithm 1: known if ``-|z - z_(k)| >= threshold``, where ``z = x / |x|`` and z_(k) is the k-th nearest
    of all stored samples. The paper leaves the class to the network; here it is that of the nearest
    sample. The score of the nearest class is the paper's; that of another class is less by as much as
    the class is farther away.

    Lengths are divided out, so samples infinitely far away can be accepted. Nothing is trained: every
    sample is stored, and `partial_fit` stores more and calibrates the threshold anew on all of them.

    Parameters
    ----------
    k : int, default=1
        Which neighbor; the last one there is, if fewer are stored. The paper's 50 to 1000 are for
        thousands of samples per class; for tens of them 1 was best on all data tried.
    threshold : float or CrossClassValidation, optional
        By default cross-class validation with `MinOpenWorldError`.
    unknown_label : label, optional
        By default -1 for numbers and "unknown" for text.
    """

    accepts_bounded_region = False
    retrains = False

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
        if self.k < 1:
            raise ValueError(f"k must be at least 1; got {self.k}.")
        return _DistanceToNeighbor(Neighbors.of(_unit(X), codes, n_classes), min(self.k, len(X)))


def _unit(samples: NDArray[Any]) -> Floats:
    """Divide each sample by its length; a sample of length 0 stays as it is."""
    samples = samples.astype(np.float64)
    lengths = np.linalg.norm(samples, axis=1, keepdims=True)
    return np.asarray(samples / np.where(lengths > 0, lengths, 1.0))
