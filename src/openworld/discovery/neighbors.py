"""Smoothing: each sample moves toward its nearest neighbors, most toward the mutual ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array

from openworld.discovery.space import unit

Vectors = NDArray[np.float32]
Positions = NDArray[np.intp]

N_NEIGHBORS = 12
ONE_SIDED = 0.2  # weight of a neighbor that has nearer neighbors itself; 1 where both are among the nearest
_NEAR = 4
_DECIMALS = 5  # to which copies agree after a projection
_PAIRS_AT_ONCE = 2**24


def smooth(
    directions: Vectors, tick: Callable[[float], None] = lambda progress: None
) -> tuple[Vectors, Vectors]:
    """Add to each unit vector its nearest neighbors, weighted by their similarity.

    What a sample shares with its neighbors is its class, what it does not share is noise. Neighbors that are
    not mutual count little, so a sample far from everything is hardly drawn to a class. Copies count once.

    Parameters
    ----------
    directions : array of shape (n, d)
        Unit vectors.
    tick : callable, optional
        Called now and then with the progress since the last call, n in all. It may raise to cancel.

    Returns
    -------
    smoothed : array of shape (n, d)
        Unit vectors.
    nearest : array of shape (n,)
        Similarity of each sample to its 4th nearest neighbor before, or the last where there are fewer.
    """
    n, k = len(directions), min(N_NEIGHBORS, len(directions) - 1)
    if k < 1:
        return directions, np.full(n, -np.inf, dtype=np.float32)
    different, copy_of = np.unique(np.round(directions, _DECIMALS), axis=0, return_inverse=True)
    copy_of = copy_of.ravel()  # NumPy 2.0.0 returns a column
    if len(different) < n:  # copies would be each other's only neighbors
        smoothed, nearest = smooth(different, lambda progress: tick(progress * n / len(different)))
        return smoothed[copy_of], nearest[copy_of]
    neighbors, similarities = _nearest(directions, k, tick)
    starts = np.arange(0, n * k + 1, k)
    edges = csr_array((np.maximum(similarities, 0).ravel(), neighbors.ravel(), starts), shape=(n, n))
    mutual = edges.minimum(edges.T)
    weights = (1 - ONE_SIDED) * mutual + ONE_SIDED * edges + eye_array(n, dtype=np.float32, format="csr")
    nearest = np.sort(similarities, axis=1)[:, -min(_NEAR, k)]
    return unit(weights @ directions), nearest


def _nearest(directions: Vectors, k: int, tick: Callable[[float], None]) -> tuple[Positions, Vectors]:
    """Return the k nearest neighbors of each sample, in no order, and their similarities."""
    n = len(directions)
    neighbors = np.empty((n, k), dtype=np.intp)
    similarities = np.empty((n, k), dtype=np.float32)
    step = max(1, _PAIRS_AT_ONCE // n)
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        products = directions[rows] @ directions.T
        products[np.arange(len(rows)), rows] = -np.inf
        neighbors[rows] = np.argpartition(products, n - k, axis=1)[:, n - k :]
        similarities[rows] = np.take_along_axis(products, neighbors[rows], axis=1)
        tick(len(rows))
    return neighbors, similarities
