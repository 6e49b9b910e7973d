"""Cluster ids that stay from one clustering to the next."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

Group = Sequence[Hashable]


def keep_ids(groups: Sequence[Group], previous: Mapping[int, Group], next_id: int) -> tuple[list[int], int]:
    """Give each group the id of the previous cluster it continues, or a new one.

    Ids go to the pairing of old and new with the most members in common. Two groups may be paired only
    if they share at least half of the smaller of them: when a cluster falls apart, a stray that ends up
    elsewhere does not carry its id along.

    Parameters
    ----------
    groups : sequence of sequences
        The members of the new clusters; no member is in two of them.
    previous : mapping from id to members
        Without the members that have left the pool.
    next_id : int
        The smallest id never given; greater than all ids of `previous`.

    Returns
    -------
    ids : list of int
        One per group. New ids ascend from `next_id` in the order of the groups.
    next_id : int
    """
    old_ids = sorted(previous)
    partner = _pair(_shared(groups, [previous[i] for i in old_ids]))
    ids = []
    for position in range(len(groups)):
        if position in partner:
            ids.append(old_ids[partner[position]])
        else:
            ids.append(next_id)
            next_id += 1
    return ids, next_id


def _shared(groups: Sequence[Group], old: Sequence[Group]) -> csr_array:
    """Return how many members each new and each old group share, where that is enough to continue it."""
    group_of = {member: position for position, group in enumerate(groups) for member in group}
    sizes = np.array([len(group) for group in groups])
    pairs = [(group_of[member], i) for i, group in enumerate(old) for member in group if member in group_of]
    rows, columns = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
    counts = coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(groups), len(old))).tocsr().tocoo()
    old_sizes = np.array([len(group) for group in old])
    enough = 2 * counts.data >= np.minimum(sizes[counts.row], old_sizes[counts.col])
    kept = (counts.data[enough], (counts.row[enough], counts.col[enough]))
    return csr_array(kept, shape=counts.shape)


def _pair(shared: csr_array) -> dict[int, int]:
    """Return the pairing (row to column) with the largest sum, worked out where rows meet columns."""
    n_rows, n_columns = shared.shape
    edges = shared.tocoo()
    size = n_rows + n_columns
    both = coo_array((edges.data, (edges.row, n_rows + edges.col)), shape=(size, size))
    part = connected_components(both, directed=False)[1]
    rows_of, columns_of = _by_part(part[:n_rows]), _by_part(part[n_rows:])
    partner: dict[int, int] = {}
    for name in rows_of.keys() & columns_of.keys():
        rows, columns = rows_of[name], columns_of[name]
        block = shared[rows][:, columns].toarray()
        for row, column in zip(*linear_sum_assignment(block, maximize=True), strict=True):
            if block[row, column] > 0:
                partner[rows[row]] = columns[column]
    return partner


def _by_part(part: NDArray[np.integer]) -> dict[int, list[int]]:
    positions: dict[int, list[int]] = {}
    for position, name in enumerate(part.tolist()):
        positions.setdefault(name, []).append(position)
    return positions
