"""Near copies among pictures: bursts, frames of a video, augmented copies, found by their features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import pdist

from openworld.recognition.adaptive.metric import unit
from openworld.recognition.adaptive.reservoir import row_hashes

NEAR = 0.5  # of the usual distance between two samples of a class
_FEWEST = 0.25  # of the samples: fewer near copies are a coincidence
_MOST_COMPARED = 100  # samples of a class, to find the usual distance


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
    from sklearn.neighbors import radius_neighbors_graph  # loads much that nothing else here needs

    samples, labels = unit(np.asarray(X, dtype=np.float64)), np.asarray(y)
    distance = usual_distance(samples, labels) if distance is None else distance
    groups, hashes = np.full(len(samples), "", dtype="U16"), row_hashes(samples)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        _, group = connected_components(
            radius_neighbors_graph(samples[rows], NEAR * distance), directed=False
        )
        for number in np.flatnonzero(np.bincount(group) > 1):
            members = rows[group == number]
            groups[members] = f"{hashes[members].min():016x}"  # the same whatever else is learned
    return groups if np.mean(groups != "") >= _FEWEST else None


def usual_distance(X: ArrayLike, y: ArrayLike) -> float:
    """Return the median over the classes of the median distance between the directions of two samples."""
    samples, labels = unit(np.asarray(X, dtype=np.float64)), np.asarray(y)
    medians = []
    for label in np.unique(labels):
        of_class = np.flatnonzero(labels == label)
        some = samples[of_class[:: -(-len(of_class) // _MOST_COMPARED)]]
        if len(some) > 1:
            medians.append(np.median(pdist(some)))
    return float(np.median(medians)) if medians else 0.0
