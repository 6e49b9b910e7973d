"""The members of one cluster: its medoid, their distances to it, and examples to show."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import euclidean_distances

Floats = NDArray[np.floating[Any]]
Positions = NDArray[np.intp]

N_EXAMPLES = 12
_TYPICAL = 0.8  # share of the members among which examples are sought: the others may be strays
_EXACT_MEDOID = 1_000  # in a larger cluster the medoid is sought among its most central members
_CENTRAL = 256
_CANDIDATES_AT_ONCE = 64


def by_distance_to_medoid(members: Floats) -> tuple[Positions, NDArray[np.float64]]:
    """Return the order of the members, medoid first, and their distances to it."""
    candidates = np.arange(len(members))
    if len(members) > _EXACT_MEDOID:
        to_mean = euclidean_distances(members, members.mean(axis=0, keepdims=True))[:, 0]
        candidates = np.sort(np.argsort(to_mean, kind="stable")[:_CENTRAL])
    sums = np.concatenate(
        [
            euclidean_distances(members[candidates[start : start + _CANDIDATES_AT_ONCE]], members).sum(axis=1)
            for start in range(0, len(candidates), _CANDIDATES_AT_ONCE)
        ]
    )
    medoid = candidates[np.argmin(sums)]
    distances = euclidean_distances(members, members[medoid : medoid + 1])[:, 0].astype(np.float64)
    distances[medoid] = 0.0
    order = np.lexsort((np.arange(len(members)) != medoid, distances))
    return order, distances[order]


def diverse(members: NDArray[np.float32]) -> Positions:
    """Return positions of a few typical members, each the farthest from those before it.

    `members` come by distance to the medoid.
    """
    typical = members[: max(1, round(_TYPICAL * len(members)))]
    chosen = [0]
    nearest = typical @ typical[0]
    nearest[0] = np.inf
    while len(chosen) < min(N_EXAMPLES, len(typical)):
        chosen.append(int(nearest.argmin()))
        np.maximum(nearest, typical @ typical[chosen[-1]], out=nearest)
        nearest[chosen] = np.inf
    return np.array(chosen, dtype=np.intp)
