"""Clusters of the unknown pool: found, named by ids that stay, and put in the order to look at them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_array

from openworld.discovery.neighbors import density_clusters, few_dimensions, nearest_neighbors, neighbor_graph
from openworld.discovery.stable_ids import keep_ids

Floats = NDArray[np.floating[Any]]
Positions = NDArray[np.intp]
Progress = Callable[[int, int], None]

MIN_SIZE = 5
_EXACT_MEDOID = 1_000  # in a larger cluster the medoid is sought among its most central members
_CENTRAL = 256
_CANDIDATES_AT_ONCE = 64
_SMALLEST_SPREAD = 1e-6


class Cancelled(Exception):
    """The work was given up because the caller asked for it."""


@dataclass(frozen=True, eq=False)
class Cluster:
    """Samples that belong together, the most typical first and the doubtful last.

    Attributes
    ----------
    id : int
    members : array of shape (size,)
        Sample ids by distance to the medoid, which is the first.
    distances : array of shape (size,)
        To the medoid, in metric space, ascending.
    """

    id: int
    members: NDArray[Any]
    distances: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.members)

    @property
    def medoid(self) -> Any:
        """The id of the member with the smallest sum of distances to the others."""
        return self.members[0]

    @property
    def radius(self) -> float:
        """The distance of the farthest member."""
        return float(self.distances[-1])

    @property
    def spread(self) -> float:
        """The median distance of the members other than the medoid."""
        return float(np.median(self.distances[1:])) if len(self) > 1 else 0.0


@dataclass(frozen=True, eq=False)
class Clustering:
    """What the pool consists of.

    Attributes
    ----------
    clusters : tuple of Cluster
        In the order of `look_first`.
    singles : array
        Ids of the samples in no cluster, those with the nearest neighbor first, the loneliest last.
    next_id : int
        The smallest cluster id never given; pass it on to the next run.
    """

    clusters: tuple[Cluster, ...]
    singles: NDArray[Any]
    next_id: int

    @property
    def members(self) -> dict[int, list[Any]]:
        """The sample ids of each cluster by cluster id: what the next run takes as `previous`."""
        return {cluster.id: cluster.members.tolist() for cluster in self.clusters}


def find_clusters(
    vectors: ArrayLike,
    ids: ArrayLike,
    previous: Mapping[int, Sequence[Any]] | None = None,
    *,
    next_id: int = 1,
    min_size: int = MIN_SIZE,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Clustering:
    """Find the clusters of samples in metric space.

    HDBSCAN (excess of mass) on the graph of each sample's 32 nearest neighbors in the 128 first principal
    components; medoids and distances are those of the vectors as given. The order of the input does not
    matter. Where density has no steps at all, as in pure noise, the answer is one loose cluster.

    Parameters
    ----------
    vectors : array of shape (n, d)
        Such as the unit vectors of `AdaptiveMetric.transform`.
    ids : array of shape (n,)
        Sample ids, integers or strings, each once.
    previous : mapping from cluster id to sample ids, optional
        The clusters of the run before (`Clustering.members`); they keep their ids.
    next_id : int, default=1
        The smallest cluster id never given (`Clustering.next_id`), so that none is given twice.
    min_size : int, default=5
        Fewest members of a cluster.
    progress : callable, optional
        Called as ``progress(done, total)``.
    cancelled : callable, optional
        Asked now and then; when it answers True, `Cancelled` is raised.

    Returns
    -------
    Clustering

    Notes
    -----
    The search for neighbors takes n² time; memory beyond the input is about 5 KB per sample. 100,000
    samples need no sampling: about 75 seconds on one thread, 10,000 about 2. Python's global lock is never
    held for long (some 0.02 seconds at 10,000 samples, 0.15 at 100,000), so that it may run in a thread
    beside requests; limit the threads of the native libraries with `threadpoolctl` where that matters.
    """
    samples, names = sorted_by_id(vectors, ids)
    if min_size < 2:
        raise ValueError(f"min_size must be at least 2; got {min_size}.")
    report = _Report(2 * len(names), progress, cancelled)
    if len(names) < min_size:
        return Clustering((), names, _first_free(previous or {}, next_id))
    report.done(0)
    found = []
    for block in nearest_neighbors(few_dimensions(samples)):
        found.append(block)
        report.done(len(block[0]))
    distances, positions = (np.concatenate(part) for part in zip(*found, strict=True))
    graph = neighbor_graph(distances, positions)
    nearest = np.minimum.reduceat(graph.data, graph.indptr[:-1])
    group_of = density_clusters(graph, min_size)
    report.done(0)
    clusters = []
    for label in range(group_of.max() + 1):
        rows = np.flatnonzero(group_of == label)
        if len(rows):
            order, lengths = _by_distance_to_medoid(samples[rows])
            clusters.append(Cluster(-1, names[rows[order]], lengths))
            report.done(len(rows))
    alone = np.flatnonzero(group_of < 0)
    singles = names[alone[np.argsort(nearest[alone], kind="stable")]]
    report.done(len(alone))
    return _with_ids(look_first(clusters), singles, names, previous or {}, next_id)


def look_first(clusters: Iterable[Cluster]) -> list[Cluster]:
    """Put clusters in the order in which a person should look at them: big and tight first.

    The order is that of ``log2(1 + size) / spread``. Tightness counts more than size, because a big loose
    cluster costs many clicks before it can be named; between equally tight ones the bigger goes first.
    """
    return sorted(
        clusters,
        key=lambda cluster: (
            -np.log2(1 + len(cluster)) / max(cluster.spread, _SMALLEST_SPREAD),
            cluster.medoid,
        ),
    )


class _Report:
    """Tells how far the work is, and stops it when asked to."""

    def __init__(self, total: int, progress: Progress | None, cancelled: Callable[[], bool] | None) -> None:
        self.total, self.progress, self.cancelled = total, progress, cancelled
        self.so_far = 0

    def done(self, n_samples: int) -> None:
        if self.cancelled is not None and self.cancelled():
            raise Cancelled
        self.so_far += n_samples
        if self.progress is not None:
            self.progress(self.so_far, self.total)


def sorted_by_id(vectors: ArrayLike, ids: ArrayLike) -> tuple[Floats, NDArray[Any]]:
    """Check samples and ids, and return them in the order of the ids."""
    names = np.asarray(ids)
    if names.size == 0:
        return np.empty((0, 1), dtype=np.float32), names
    samples = check_array(vectors, dtype=[np.float32, np.float64])
    if names.shape != (len(samples),):
        raise ValueError(
            f"ids must have one entry for each of the {len(samples)} vectors; got shape {names.shape}."
        )
    if not (names[1:] > names[:-1]).all():
        order = np.argsort(names, kind="stable")
        samples, names = samples[order], names[order]
    again = names[1:] == names[:-1]
    if again.any():
        raise ValueError(f"ids must differ; {names[1:][again][0]!r} is there more than once.")
    return samples, names


def _by_distance_to_medoid(members: Floats) -> tuple[Positions, NDArray[np.float64]]:
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


def _first_free(previous: Mapping[int, Sequence[Any]], next_id: int) -> int:
    return max([next_id, *(old + 1 for old in previous)])


def _with_ids(
    clusters: Sequence[Cluster],
    singles: NDArray[Any],
    names: NDArray[Any],
    previous: Mapping[int, Sequence[Any]],
    next_id: int,
) -> Clustering:
    """Number the clusters, after the previous ones where they continue them."""
    here = set(names.tolist())
    remaining = {old: [member for member in group if member in here] for old, group in previous.items()}
    groups = [cluster.members.tolist() for cluster in clusters]
    numbers, next_id = keep_ids(groups, remaining, _first_free(previous, next_id))
    numbered = (
        Cluster(number, cluster.members, cluster.distances)
        for number, cluster in zip(numbers, clusters, strict=True)
    )
    return Clustering(tuple(numbered), singles, next_id)
