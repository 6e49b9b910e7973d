"""Who is near whom in the pool: few dimensions, the nearest neighbors of each sample, density clusters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.cluster import HDBSCAN
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

Floats = NDArray[np.floating[Any]]
Positions = NDArray[np.intp]

N_DIMENSIONS = 128
N_NEIGHBORS = 32
_ROWS_FOR_PCA = 10_000
_ROWS_AT_ONCE = 4_096
_CORE_NEIGHBORS = 2  # a sample is as dense as its second neighbor is near: few, since new classes are small
_APART = 1.001  # times the longest edge: how far the parts of the pool count as apart
_SAME = 0.4  # of the median neighbor distance: samples that close count as equally close


def few_dimensions(vectors: Floats, n_dimensions: int = N_DIMENSIONS) -> NDArray[np.float32]:
    """Return the principal components of the samples; the samples themselves if they have as few.

    The components come from at most 10,000 of the samples, evenly spaced. They are what makes the search
    quick, and on real features they also leave out more noise than class differences.
    """
    if min(vectors.shape) <= n_dimensions:
        return np.asarray(vectors, dtype=np.float32)
    some = vectors[:: 1 + (len(vectors) - 1) // _ROWS_FOR_PCA]
    pca = PCA(n_dimensions, svd_solver="randomized", random_state=0).fit(some)
    return np.asarray(pca.transform(vectors), dtype=np.float32)


def nearest_neighbors(vectors: NDArray[np.float32]) -> Iterator[tuple[Floats, Positions]]:
    """Yield distances and positions of the nearest neighbors, some thousand samples at a time.

    A sample is among its own neighbors, unless it has many copies.
    """
    search = NearestNeighbors(n_neighbors=min(N_NEIGHBORS + 1, len(vectors)), algorithm="brute").fit(vectors)
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        distances, positions = search.kneighbors(vectors[start : start + _ROWS_AT_ONCE])
        yield distances, positions


def neighbor_graph(distances: Floats, positions: Positions) -> csr_array:
    """Return the symmetric graph whose edges are the distances of neighbors, without loops.

    Distances of (nearly) equal samples are raised to a small fraction of the usual one: density is one
    over distance, and a few copies must not count as infinitely dense.
    """
    n, k = distances.shape
    rows, columns = np.repeat(np.arange(n), k), positions.ravel()
    others = rows != columns
    lengths = distances.ravel()[others].astype(np.float64)
    usual = float(np.median(lengths))
    lengths = np.maximum(lengths, _SAME * usual if usual > 0 else 1.0)
    one_way = csr_array((lengths, (rows[others], columns[others])), shape=(n, n))
    return csr_array(one_way.maximum(one_way.T))


def density_clusters(graph: csr_array, min_size: int) -> Positions:
    """Return the HDBSCAN cluster of each sample of a neighbor graph, -1 for none.

    HDBSCAN needs a connected graph, so the parts of the graph are joined by edges a little longer than
    the longest one. HDBSCAN also never answers "all is one cluster"; one more part that stands for the
    rest of the world, taken away afterwards, lets it.
    """
    n = graph.shape[0]
    if n < max(min_size, _CORE_NEIGHBORS + 1):
        return np.full(n, -1, dtype=np.intp)
    model = HDBSCAN(
        min_cluster_size=min_size, min_samples=_CORE_NEIGHBORS, metric="precomputed", copy=False
    ).fit(_joined(graph, max(min_size, _CORE_NEIGHBORS + 1)))
    return np.asarray(model.labels_[:n], dtype=np.intp)


def _joined(graph: csr_array, n_elsewhere: int) -> csr_array:
    """Return the graph with a clique of further nodes, all its parts in one chain."""
    n, apart = graph.shape[0], _APART * float(graph.data.max())
    parts = np.unique(connected_components(graph, directed=False)[1], return_index=True)[1]
    chain = np.append(parts, n)
    elsewhere = np.arange(n, n + n_elsewhere)
    first, second = (side.ravel() for side in np.meshgrid(elsewhere, elsewhere))
    known = graph.tocoo()
    rows = np.concatenate([known.row, chain[:-1], chain[1:], first[first != second]])
    columns = np.concatenate([known.col, chain[1:], chain[:-1], second[first != second]])
    lengths = np.full(len(rows), graph.data.min())  # the clique is as dense as anything in the pool
    lengths[: known.nnz] = known.data
    lengths[known.nnz : known.nnz + 2 * len(parts)] = apart
    size = n + n_elsewhere
    return csr_array(coo_array((lengths, (rows, columns)), shape=(size, size)))
