"""Near copies among pictures: bursts, frames of a video, augmented copies, found by their features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import pdist

from openworld.recognition.adaptive.metric import unit
from openworld.recognition.adaptive.reservoir import row_hashes

NEAR = 0.5  # of the usual distance between two samples of a class
_FEWEST = 0.25  # of the samples: fewer near copies are a coincidence
_MOST_COMPARED = 100  # samples of a class, to find the usual distance
_PAIRS_AT_ONCE = 2_000_000  # of samples of a class: all pairs of a long video would not fit into memory


def near_copies(X: ArrayLike, y: ArrayLike, distance: float | None = None) -> NDArray[Any] | None:
    """Return a group for each sample, the same for near copies in its class; None where there are hardly any.

    Samples are near copies if their directions are less than half the usual distance apart; so are near
    copies of near copies. This is for features of pictures: texts that are so similar are no copies, as new
    texts of the class will be as similar.

    Parameters
    ----------
    X : array of shape (n, D)
    y : array of shape (n,)
    distance : float, optional
        The usual distance, from `usual_distance` of other samples. By default that of these ones.

    Returns
    -------
    groups : array of str of shape (n,), or None
        For `OpenWorldRecognizer.fit`; "" for a sample without a near copy.
    """
    samples, labels = unit(np.ascontiguousarray(X, dtype=np.float64)), np.asarray(y)
    distance = usual_distance(samples, labels) if distance is None else distance
    groups, hashes = np.full(len(samples), "", dtype="U16"), row_hashes(samples)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        numbers = _connected(samples[rows], NEAR * distance)
        smallest = np.full(len(rows), np.iinfo(np.uint64).max)
        np.minimum.at(smallest, numbers, hashes[rows])  # the same whatever else is learned
        copies = np.bincount(numbers)[numbers] > 1
        groups[rows[copies]] = [f"{name:016x}" for name in smallest[numbers[copies]].tolist()]
    return groups if np.mean(groups != "") >= _FEWEST else None


def _connected(samples: NDArray[Any], radius: float) -> NDArray[Any]:
    """Return the number of the group of each sample, in which each is within the radius of another one."""
    n, squares = len(samples), np.einsum("ij,ij->i", samples, samples)
    numbers: NDArray[Any] = np.arange(n)
    at_once = max(1, _PAIRS_AT_ONCE // n)
    for start in range(0, n, at_once):
        some = slice(start, start + at_once)
        between = squares[some, np.newaxis] + squares - 2 * samples[some] @ samples.T
        one, other = np.nonzero(between <= radius**2)
        pairs = numbers[start + one], numbers[other]
        graph = coo_array((np.ones(len(one), dtype=bool), pairs), shape=(n, n))
        numbers = connected_components(graph, directed=False)[1][numbers]
    return numbers


def usual_distance(X: ArrayLike, y: ArrayLike) -> float:
    """Return the median over the classes of the median distance between the directions of two samples."""
    if not len(np.asarray(y)):
        return 0.0
    samples, labels = unit(np.asarray(X, dtype=np.float64)), np.asarray(y)
    medians = []
    for label in np.unique(labels):
        of_class = np.flatnonzero(labels == label)
        some = samples[of_class[:: -(-len(of_class) // _MOST_COMPARED)]]
        if len(some) > 1:
            medians.append(np.median(pdist(some)))
    return float(np.median(medians)) if medians else 0.0
