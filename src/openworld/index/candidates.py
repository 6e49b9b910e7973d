"""Candidates for the nearest vectors: from a few inverted lists, and from more if the result is in doubt."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from openworld.index.inverted_lists import InvertedLists, Singles
from openworld.index.protocol import Positions

Candidates = tuple[Singles, Positions]

# Number of lists searched for every sample, and for a sample in doubt.
_FEW, _MANY = 4, 32
# A sample is in doubt if no vector was found within the boundary, or if the next vector is less than this
# factor farther away: when the nearest vector was missed, those found are usually about equally far away.
_CLOSE = 1.1


def candidates(lists: InvertedLists, seen: Singles, n: int, boundary: float, k: int) -> Candidates:
    """Return squared distances and positions of the k nearest vectors in the searched lists.

    Parameters
    ----------
    lists : InvertedLists
    seen : array of shape (n_samples, m)
    n : int
        Number of nearest vectors needed. More lists are searched if they are in doubt.
    boundary : float
        Distance beyond which vectors are irrelevant.
    k : int
        More than n. If fewer vectors are found, the rest have position -1 and an infinite distance.
    """
    n_lists = len(lists)
    few, many = min(_FEW, n_lists), min(_MANY, n_lists)
    found = lists.search(seen, *lists.nearest_lists(seen, few), k)
    _look_further(lists, seen, found, _in_doubt(found[0], n, boundary), n, boundary, (few, many))
    _look_further(lists, seen, found, found[1][:, n - 1] < 0, n, np.inf, (many, n_lists))
    return found


def _look_further(
    lists: InvertedLists,
    seen: Singles,
    found: Candidates,
    which: NDArray[np.bool_],
    n: int,
    boundary: float,
    ranks: tuple[int, int],
) -> None:
    """Search further lists for the selected samples, up to the boundary, and merge the results in place."""
    rows, (start, stop) = np.flatnonzero(which), ranks
    if start == stop or not len(rows):
        return
    squared, positions = found
    coarse, near = lists.nearest_lists(seen[rows], stop)
    coarse, near = coarse[:, start:], near[:, start:]
    reach = np.sqrt(squared[rows, n - 1])
    reach = np.where(np.isinf(reach), reach, np.minimum(reach, np.float32(boundary)))
    near = np.where(lists.beyond(coarse, near, reach), -1, near)
    more = lists.search(seen[rows], coarse, near, squared.shape[1])
    squared[rows], positions[rows] = _merged((squared[rows], positions[rows]), more)


def _in_doubt(squared: Singles, n: int, boundary: float) -> NDArray[np.bool_]:
    nth, following = squared[:, n - 1], squared[:, n]
    return np.asarray((nth >= boundary**2) | ~(following > _CLOSE**2 * nth))


def _merged(first: Candidates, more: Candidates) -> Candidates:
    squared = np.concatenate([first[0], more[0]], axis=1)
    positions = np.concatenate([first[1], more[1]], axis=1)
    order = np.argsort(squared, axis=1, kind="stable")[:, : first[0].shape[1]]
    return np.take_along_axis(squared, order, axis=1), np.take_along_axis(positions, order, axis=1)
