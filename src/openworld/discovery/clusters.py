"""Clusters of the unknown pool: found, split, with ids that stay, in the order to look at them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from openworld.discovery.granularity import USUAL, Granularity, calibrate, cluster_means, separations
from openworld.discovery.kernel import fourier_features
from openworld.discovery.linkage import Dendrogram, average_linkage, few_dimensions, regions
from openworld.discovery.members import by_distance_to_medoid, diverse
from openworld.discovery.neighbors import smooth
from openworld.discovery.space import KnownSamples, unit
from openworld.discovery.stable_ids import keep_ids
from openworld.recognition.adaptive.calibration import FEW_FEATURES

Floats = NDArray[np.floating[Any]]
Positions = NDArray[np.intp]
Progress = Callable[[int, int], None]

MIN_SIZE = 5
LOOSE = 0.65
_MOST_AT_ONCE = 30_000
_LOWEST = 0.05  # similarity down to which a dendrogram is made


class Canceled(Exception):
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
    examples : array
        Ids of a few members, typical of the cluster but different from each other, the medoid first.
    purity : float
        Estimated share of the members that are of one class.
    novelty : float
        1 minus the similarity to the most similar known class; 1 where no class is known.
    """

    id: int
    members: NDArray[Any]
    distances: NDArray[np.float64]
    examples: NDArray[Any]
    purity: float
    novelty: float

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
    def loose(self) -> bool:
        """Whether the cluster probably holds several classes."""
        return self.purity < LOOSE


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
    granularity : Granularity
        Where the pool was cut.
    """

    clusters: tuple[Cluster, ...]
    singles: NDArray[Any]
    next_id: int
    granularity: Granularity = USUAL

    @property
    def members(self) -> dict[int, list[Any]]:
        """The sample ids of each cluster by cluster id: what the next run takes as `previous`."""
        return {cluster.id: cluster.members.tolist() for cluster in self.clusters}


def find_clusters(
    vectors: ArrayLike,
    ids: ArrayLike,
    previous: Mapping[int, Sequence[Any]] | None = None,
    *,
    known: KnownSamples | None = None,
    finer: int = 0,
    next_id: int = 1,
    min_size: int = MIN_SIZE,
    progress: Progress | None = None,
    canceled: Callable[[], bool] | None = None,
) -> Clustering:
    """Find the clusters of samples, at the scale of the known classes.

    Average linkage of the directions of the samples, in the first 128 principal directions of the pool and
    smoothed by their nearest neighbors (`neighbors.smooth`). The dendrogram is cut where clusters are
    largest while held-out samples of known classes, clustered with the pool, stay apart from it
    (`granularity.calibrate`). The order of the input does not matter.

    Parameters
    ----------
    vectors : array of shape (n, d)
        Such as `PoolSpace.transform` returns. Only their directions count.
    ids : array of shape (n,)
        Sample ids, integers or strings, each once.
    previous : mapping from cluster id to sample ids, optional
        The clusters of the run before (`Clustering.members`); they keep their ids.
    known : KnownSamples, optional
        Held-out samples of known classes, in the space of `vectors`, whose origin is the center of the known
        classes. Without them the origin is the mean of the pool, a few features of different units are
        standardized, and the usual granularity is taken.
    finer : int, default=0
        Steps to smaller clusters, or to larger ones where negative.
    next_id : int, default=1
        The smallest cluster id never given (`Clustering.next_id`), so that none is given twice.
    min_size : int, default=5
        Fewest members of a cluster.
    progress : callable, optional
        Called as ``progress(done, total)``.
    canceled : callable, optional
        Asked now and then; when it answers True, `Canceled` is raised.

    Returns
    -------
    Clustering

    Notes
    -----
    Time n² up to 30,000 samples; memory a copy of the input, 4 KB per sample and 64 MiB. A larger pool is
    clustered region by region, and the clusters are then merged in the same way. The work may run in a
    thread beside requests: Python's global lock is never held for long. Limit the threads of the native
    libraries with `threadpoolctl` where that matters.
    """
    samples, names = sorted_by_id(vectors, ids)
    if min_size < 2:
        raise ValueError(f"min_size must be at least 2; got {min_size}.")
    report = _Report(2 * len(names), progress, canceled)
    if len(names) < min_size:
        return Clustering((), names, _first_free(previous or {}, next_id))
    report.done(0)
    directions, examples = _directions(samples, known)
    pool = _link(directions, examples, finer, report)
    clusters = _describe(samples, names, directions, pool, examples, min_size, report)
    alone = np.flatnonzero(np.bincount(pool.cluster_of)[pool.cluster_of] < min_size)
    singles = names[alone[np.argsort(-pool.nearest[alone], kind="stable")]]
    report.done(len(alone))
    found = Clustering(tuple(look_first(clusters)), singles, next_id, pool.granularity)
    return _with_ids(found, names, previous or {})


def split(vectors: ArrayLike, ids: ArrayLike, *, min_size: int = MIN_SIZE) -> list[NDArray[Any]]:
    """Split one cluster into the parts that merged last.

    Parameters
    ----------
    vectors : array of shape (n, d)
        The members, in the space in which the cluster was found.
    ids : array of shape (n,)
    min_size : int, default=5
        Fewest members of a part, where there is such a split; otherwise the last merge is undone.

    Returns
    -------
    list of arrays
        The ids of each part, the largest first, every member in one of them; one part where all are equal.
    """
    samples, names = sorted_by_id(vectors, ids)
    if len(names) < 2:
        return [names]
    directions = unit(few_dimensions(_centered(samples) if samples.shape[1] <= FEW_FEATURES else samples))
    dendrogram = average_linkage(directions, -np.inf)
    heights = np.unique(dendrogram.similarities)
    cuts = (dendrogram.cut(np.nextafter(height, np.inf, dtype=np.float32)) for height in heights)
    fallback = dendrogram.cut(np.nextafter(heights[0], np.inf, dtype=np.float32))
    part_of = next((cut for cut in cuts if (np.bincount(cut) >= min_size).sum() > 1), fallback)
    sizes = np.bincount(part_of)
    large = np.flatnonzero(sizes >= min(min_size, np.sort(sizes)[-2] if len(sizes) > 1 else sizes[0]))
    means = unit(np.stack([directions[part_of == part].mean(axis=0) for part in large]))
    small = ~np.isin(part_of, large)
    part_of[small] = large[(directions[small] @ means.T).argmax(axis=1)]
    parts = [names[part_of == part] for part in large]
    return sorted(parts, key=lambda part: -len(part))


ORDERS: dict[str, Callable[[Cluster], float]] = {
    "gain": lambda cluster: -len(cluster) * cluster.purity,
    "uncertain": lambda cluster: cluster.purity,
    "different": lambda cluster: -cluster.novelty,
}


def look_first(clusters: Iterable[Cluster], order: str = "gain") -> list[Cluster]:
    """Put clusters in the order in which a person should look at them.

    Parameters
    ----------
    clusters : iterable of Cluster
    order : {"gain", "uncertain", "different"}, default="gain"
        By the expected number of samples that one name is right for; those first that most likely hold
        several classes; or those first that are most different from the known classes.
    """
    key = ORDERS[order]
    return sorted(clusters, key=lambda cluster: (key(cluster), cluster.medoid))


@dataclass(frozen=True, eq=False)
class _Linked:
    """The cluster of each sample of the pool, however small, and what they were cut by.

    `n_known` counts the held-out known samples in each cluster.
    """

    cluster_of: Positions
    n_known: Positions
    nearest: NDArray[np.float32]
    granularity: Granularity


def _directions(samples: Floats, known: KnownSamples | None) -> tuple[NDArray[np.float32], KnownSamples]:
    """Return unit vectors of the pool and of known samples, in few dimensions."""
    if known is None:
        reduced = unit(few_dimensions(_centered(samples)))
        return reduced, KnownSamples(reduced[:0], np.empty(0, dtype=np.intp))
    together = unit(few_dimensions(np.concatenate([samples, known.vectors.astype(samples.dtype)])))
    return together[: len(samples)], replace(known, vectors=together[len(samples) :])


def _centered(samples: Floats) -> Floats:
    """Return samples of unknown classes about their mean; few features by distance."""
    if np.ptp(samples, axis=0).max() <= 1e-6 * np.abs(samples).max():  # no direction from their mean
        return np.ones((len(samples), 1))
    if samples.shape[1] <= FEW_FEATURES:
        samples = fourier_features(samples)
    return np.asarray(samples - samples.mean(axis=0))


def _link(directions: NDArray[np.float32], examples: KnownSamples, finer: int, report: _Report) -> _Linked:
    """Cluster the pool together with the known samples, region by region where they are many."""
    n = len(directions)
    together = np.concatenate([directions, examples.vectors])
    codes = np.concatenate([np.full(n, -1), examples.codes])
    smoothed, nearest = np.empty_like(together), np.empty(len(together), dtype=np.float32)

    def tick(progress: float) -> None:  # smoothing and linkage take about as long
        report.tick(progress / 2)

    parts = []
    for rows in regions(together, _MOST_AT_ONCE):
        smoothed[rows], nearest[rows] = smooth(together[rows], tick)
        parts.append((rows, average_linkage(smoothed[rows], _LOWEST, tick=tick)))
    dendrogram = Dendrogram.joined(parts)
    largest = max((rows for rows, _ in parts), key=len)
    granularity = calibrate(dendrogram, together, codes, finer=finer, region=largest)
    cluster_of = dendrogram.cut(granularity.threshold)
    if len(parts) > 1:
        cluster_of = _join(smoothed, cluster_of, granularity.threshold, report)[cluster_of]
    n_known = np.bincount(cluster_of[n:], minlength=cluster_of.max() + 1)
    labels, found = np.unique(cluster_of[:n], return_inverse=True)
    return _Linked(found, n_known[labels], nearest[:n], granularity)


def _join(
    directions: NDArray[np.float32], cluster_of: Positions, threshold: float, report: _Report
) -> Positions:
    """Merge the clusters of the regions of a large pool, and return the new cluster of each of them."""
    means, sizes = cluster_means(directions, cluster_of)
    joined: Dendrogram = average_linkage(means, threshold, weights=sizes, tick=lambda _: report.done(0))
    return joined.cut(threshold)


def _describe(
    samples: Floats,
    names: NDArray[Any],
    directions: NDArray[np.float32],
    pool: _Linked,
    examples: KnownSamples,
    min_size: int,
    report: _Report,
) -> list[Cluster]:
    """Return the clusters that are large enough, without ids."""
    means, sizes = cluster_means(directions, pool.cluster_of)
    large = np.flatnonzero(sizes >= min_size)
    known_share = pool.n_known[large] / (sizes + pool.n_known)[large]
    purity = pool.granularity.purity(separations(directions, pool.cluster_of, large), known_share)
    novelty = np.ones(len(large))
    if len(examples.codes):
        class_means, _ = cluster_means(examples.vectors, np.unique(examples.codes, return_inverse=True)[1])
        novelty = 1 - (unit(means[large]) @ unit(class_means).T).max(axis=1).astype(np.float64)
    order = np.argsort(pool.cluster_of, kind="stable")
    groups = np.split(order, np.cumsum(sizes.astype(np.intp))[:-1])
    clusters = []
    for i, label in enumerate(large):
        rows = groups[label]
        by_distance, distances = by_distance_to_medoid(samples[rows])
        rows = rows[by_distance]
        shown = names[rows[diverse(directions[rows])]]
        clusters.append(Cluster(-1, names[rows], distances, shown, float(purity[i]), float(novelty[i])))
        report.done(len(rows))
    return clusters


class _Report:
    """Tells how far the work is, and stops it when asked to."""

    def __init__(self, total: int, progress: Progress | None, canceled: Callable[[], bool] | None) -> None:
        self.total, self.progress, self.canceled = total, progress, canceled
        self.so_far, self.rest = 0, 0.0

    def tick(self, n_samples: float) -> None:
        """Count a fraction of the work that is known only roughly."""
        self.rest += n_samples
        whole = int(self.rest)
        self.rest -= whole
        self.done(min(whole, self.total // 2 - self.so_far))

    def done(self, n_samples: int) -> None:
        if self.canceled is not None and self.canceled():
            raise Canceled
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


def _first_free(previous: Mapping[int, Sequence[Any]], next_id: int) -> int:
    return max([next_id, *(old + 1 for old in previous)])


def _with_ids(found: Clustering, names: NDArray[Any], previous: Mapping[int, Sequence[Any]]) -> Clustering:
    """Number the clusters, after the previous ones where they continue them."""
    here = set(names.tolist())
    remaining = {old: [member for member in group if member in here] for old, group in previous.items()}
    groups = [cluster.members.tolist() for cluster in found.clusters]
    numbers, next_id = keep_ids(groups, remaining, _first_free(previous, found.next_id))
    numbered = (replace(cluster, id=number) for number, cluster in zip(numbers, found.clusters, strict=True))
    return replace(found, clusters=tuple(numbered), next_id=next_id)
