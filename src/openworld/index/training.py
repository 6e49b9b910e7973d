"""Training of an approximate index: centroids by k-means, and the nearest centroid of every mean."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from openworld.index.inverted_lists import Singles, Training, Vectors, flat, load_faiss, members_of

_SAMPLE = 32  # vectors per centroid in the sample for k-means
_ROUNDS = 8
_SPLITS = 4
_ROWS_AT_ONCE = 1 << 14
# With more centroids than this the nearest is searched approximately, in this many parts near the vector.
_MOST_COMPARED, _PARTS_COMPARED = 2048, 16


def train(vectors: Vectors, n_vectors: int) -> Training:
    """Find centroids whose lists hold about ``sqrt(K) / 4`` vectors, and none many more.

    k-means on a sample finds about ``sqrt(K)`` lists. If the vectors form more groups than that, some lists
    collect vectors that are near no centroid; these lists are long and searched often. So k-means is repeated
    within every long list, which is also cheaper than finding all centroids at once.
    """
    n_first = round(np.sqrt(n_vectors)) if n_vectors >= 64 else 1
    sample = np.arange(n_vectors)
    if n_vectors > _SAMPLE * n_first:
        chosen = np.random.default_rng(0).choice(n_vectors, _SAMPLE * n_first, replace=False)
        sample = np.sort(chosen)
    centroids = _k_means(vectors(sample), n_first)
    lists = _nearest(centroids, vectors, n_vectors)
    if n_first == 1:
        return Training(centroids, lists)
    for _ in range(_SPLITS):
        n_lists = len(centroids)
        centroids = _split(centroids, lists, vectors, np.sqrt(n_vectors) / 4)
        if len(centroids) == n_lists:
            break
    return Training(centroids, _nearest(centroids, vectors, n_vectors))


def _k_means(vectors: Singles, n_centroids: int) -> Singles:
    if n_centroids == 1:
        return np.zeros((1, vectors.shape[1]), dtype=np.float32)
    k_means = load_faiss().Kmeans(
        vectors.shape[1],
        n_centroids,
        niter=_ROUNDS,
        seed=1,
        min_points_per_centroid=1,
        max_points_per_centroid=_SAMPLE,
    )
    k_means.train(vectors)
    return np.asarray(k_means.centroids)


def _nearest(centroids: Singles, vectors: Vectors, n_vectors: int) -> NDArray[np.int32]:
    """Return the nearest centroid of every vector; approximately the nearest if there are many centroids."""
    quantizer = flat(centroids)
    if len(centroids) > _MOST_COMPARED:
        n_parts = round(np.sqrt(len(centroids)))
        quantizer = load_faiss().index_factory(centroids.shape[1], f"IVF{n_parts},Flat")
        quantizer.train(centroids)
        quantizer.add(centroids)
        quantizer.nprobe = _PARTS_COMPARED
    lists = np.empty(n_vectors, dtype=np.int32)
    for start in range(0, n_vectors, _ROWS_AT_ONCE):
        piece = slice(start, min(start + _ROWS_AT_ONCE, n_vectors))
        lists[piece] = quantizer.search(vectors(piece), 1)[1][:, 0]
    return lists


def _split(centroids: Singles, lists: NDArray[np.int32], vectors: Vectors, length: float) -> Singles:
    """Split every list that is more than twice the wanted length, and return all centroids.

    `lists` is updated in place.
    """
    found, n_found = [centroids.copy()], len(centroids)
    for i, members in enumerate(members_of(lists, len(centroids))):
        if len(members) <= 2 * length:
            continue
        in_list = vectors(members)
        parts = _k_means(in_list, round(len(members) / length))
        own = flat(parts).search(in_list, 1)[1][:, 0]
        lists[members] = np.where(own == 0, i, n_found + own - 1)
        found[0][i] = parts[0]
        found.append(parts[1:])
        n_found += len(parts) - 1
    return np.concatenate(found)
