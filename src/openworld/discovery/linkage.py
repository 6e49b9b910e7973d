"""Average linkage: the most similar clusters merge first, without a matrix of all pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD

Floats = NDArray[np.floating[Any]]
Positions = NDArray[np.intp]
Tick = Callable[[float], None]

N_DIMENSIONS = 128
_ROWS_TO_LEARN = 10_000
_N_CENTERS = 256
_PAIRS_AT_ONCE = 2**24


@dataclass(frozen=True, eq=False)
class Dendrogram:
    """The merges of average linkage, down to some similarity.

    Attributes
    ----------
    children : array of shape (n_merges, 2)
        Merge i makes node n + i of two nodes; nodes 0 to n - 1 are the samples.
    similarities : array of shape (n_merges,)
        Mean similarity of the pairs between the two nodes; never above that of the merges below it.
    n_samples : int
    """

    children: Positions
    similarities: NDArray[np.float32]
    n_samples: int

    @classmethod
    def joined(cls, parts: Sequence[tuple[Positions, Dendrogram]]) -> Dendrogram:
        """Return one dendrogram from those of disjoint parts, each with the positions of its samples."""
        n_samples = first = sum(part.n_samples for _, part in parts)
        children = []
        for rows, part in parts:
            nodes = np.concatenate([rows, first + np.arange(len(part.children))])
            children.append(nodes[part.children])
            first += len(part.children)
        return cls(
            np.concatenate(children), np.concatenate([part.similarities for _, part in parts]), n_samples
        )

    def cut(self, threshold: float) -> Positions:
        """Return the cluster of each sample, 0, 1, ..., if only merges from a similarity on are made."""
        n = self.n_samples
        parent = np.arange(n + len(self.children))
        made = np.flatnonzero(self.similarities >= threshold)
        parent[self.children[made]] = (n + made)[:, np.newaxis]
        while True:
            above = parent[parent]
            if (above == parent).all():
                return np.unique(parent[:n], return_inverse=True)[1]
            parent = above


def few_dimensions(vectors: Floats, n_dimensions: int = N_DIMENSIONS) -> NDArray[np.float32]:
    """Project samples on their principal directions from the origin; few dimensions are kept as they are.

    The directions come from at most 10,000 of the samples, evenly spaced. In a space where all classes vary
    alike, they are those in which classes differ: the projection drops noise and makes the search quick.
    """
    if min(vectors.shape) <= n_dimensions:
        return np.asarray(vectors, dtype=np.float32)
    some = vectors[:: 1 + (len(vectors) - 1) // _ROWS_TO_LEARN]
    svd = TruncatedSVD(n_dimensions, random_state=0).fit(some)
    return np.asarray(svd.transform(vectors), dtype=np.float32)


def regions(vectors: NDArray[np.float32], most: int) -> list[Positions]:
    """Return the positions of samples to link at once, so that those of a class are mostly together.

    Each sample goes with the nearest of some centers. The centers are halved along their widest direction
    until no region has more than `most` samples; those of a single center are divided as they come.
    """
    if len(vectors) <= most:
        return [np.arange(len(vectors))]
    from sklearn.cluster import KMeans  # loads much that a small pool does not need

    some = np.unique(vectors[:: 1 + (len(vectors) - 1) // _ROWS_TO_LEARN], axis=0)
    k_means = KMeans(min(_N_CENTERS, len(some)), n_init=1, max_iter=20, random_state=0).fit(some)
    centers, nearest = k_means.cluster_centers_, k_means.predict(vectors)
    found: list[Positions] = []
    waiting = [np.arange(len(centers))]
    while waiting:
        group = waiting.pop()
        rows = np.flatnonzero(np.isin(nearest, group))
        if len(rows) > most and len(group) > 1:
            widest = centers[group].var(axis=0).argmax()
            waiting += np.array_split(group[np.argsort(centers[group, widest], kind="stable")], 2)
        elif len(rows):
            found += np.array_split(rows, -(-len(rows) // most))
    return found


def average_linkage(
    vectors: NDArray[np.float32],
    floor: float,
    *,
    weights: NDArray[np.float64] | None = None,
    tick: Tick | None = None,
) -> Dendrogram:
    """Merge the most similar clusters until none are as similar as `floor`.

    The similarity of two clusters is the mean dot product of their pairs, which is the dot product of their
    means. Merging brings no two clusters nearer, so all pairs of mutual nearest neighbors can merge at once,
    with the same result as one after the other (Sumengen et al., Scaling hierarchical agglomerative
    clustering to billion-sized datasets, 2021). A cluster with nothing as similar as `floor` is done.

    Parameters
    ----------
    vectors : array of shape (n, d)
    floor : float
    weights : array of shape (n,), optional
        How many samples each vector is the mean of.
    tick : callable, optional
        Called now and then with the progress since the last call, n in all. It may raise to cancel.

    Notes
    -----
    Time about 3 n² d, memory n d and 64 MiB.
    """
    return _Linkage(vectors, floor, weights, tick or (lambda progress: None)).run()


class _Linkage:
    """The clusters that can still merge: their means, sizes, nodes and nearest neighbors."""

    def __init__(
        self, vectors: NDArray[np.float32], floor: float, weights: NDArray[np.float64] | None, tick: Tick
    ) -> None:
        n = len(vectors)
        self.floor, self.tick = floor, tick
        self.means = np.array(vectors, dtype=np.float32)
        self.sizes = np.ones(n) if weights is None else weights.astype(np.float64)
        self.nodes = np.arange(n)
        self.heights = np.full(n, np.inf, dtype=np.float32)
        self.neighbor = np.zeros(n, dtype=np.intp)
        self.similarity = np.full(n, -np.inf, dtype=np.float32)
        self.n_nodes = n
        self.merges: list[tuple[Positions, NDArray[np.float32]]] = []

    def run(self) -> Dendrogram:
        n = len(self.means)
        if n > 1:
            self._search(np.arange(n), 0.5)
        while True:
            first, second = self._mutual_neighbors()
            if not len(first):
                break
            outdated = self._merge(first, second)
            if len(self.means) > 1:
                self._search(outdated, 0.0)
        self.tick(0.5 * len(self.means))
        children = [np.empty((0, 2), dtype=np.intp), *(pair for pair, _ in self.merges)]
        similarities = [np.empty(0, dtype=np.float32), *(height for _, height in self.merges)]
        return Dendrogram(np.concatenate(children), np.concatenate(similarities), n)

    def _search(self, rows: Positions, progress: float) -> None:
        """Find the nearest neighbors of some clusters."""
        step = max(1, _PAIRS_AT_ONCE // len(self.means))
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            products = self.means[some] @ self.means.T
            products[np.arange(len(some)), some] = -np.inf
            self.neighbor[some] = products.argmax(axis=1)
            self.similarity[some] = products[np.arange(len(some)), self.neighbor[some]]
            self.tick(progress * len(some))

    def _mutual_neighbors(self) -> tuple[Positions, Positions]:
        """Return the pairs that merge now."""
        here = np.arange(len(self.means))
        mutual = (self.neighbor[self.neighbor] == here) & (here < self.neighbor)
        first = here[mutual & (self.similarity >= self.floor)]
        if not len(first) and len(here) > 1 and self.similarity.max() >= self.floor:
            # Rounding can turn equal similarities into a circle of nearest neighbors: merge the best pair.
            best = int(self.similarity.argmax())
            pair = np.sort([best, self.neighbor[best]])
            return pair[:1], pair[1:]
        return first, self.neighbor[first]

    def _merge(self, first: Positions, second: Positions) -> Positions:
        """Merge pairs, drop what is done, and return the clusters whose nearest neighbor is unknown now."""
        n_before = len(self.means)
        heights = np.minimum(self.similarity[first], np.minimum(self.heights[first], self.heights[second]))
        self.merges.append((np.column_stack([self.nodes[first], self.nodes[second]]), heights))
        sizes = self.sizes[first] + self.sizes[second]
        share = (self.sizes[first] / sizes)[:, np.newaxis].astype(np.float32)
        self.means[first] = share * self.means[first] + (1 - share) * self.means[second]
        self.sizes[first], self.heights[first] = sizes, heights
        self.nodes[first] = self.n_nodes + np.arange(len(first))
        self.n_nodes += len(first)

        gone = np.zeros(n_before, dtype=bool)
        gone[second] = True
        changed = gone.copy()
        changed[first] = True
        outdated = changed | changed[self.neighbor]
        stays = ~gone & (changed | (self.similarity >= self.floor))
        position = np.cumsum(stays) - 1
        self.neighbor = position[self.neighbor][stays]
        for name in ("means", "sizes", "nodes", "heights", "similarity"):
            setattr(self, name, getattr(self, name)[stays])
        self.tick(0.5 * (n_before - len(self.means)))
        return np.flatnonzero(outdated[stays])
