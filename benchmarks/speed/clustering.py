"""Clusters of 10,000 unknowns against scikit-learn's HDBSCAN on the same vectors: time, memory, agreement.

python -m benchmarks.speed.clustering
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from time import perf_counter

import numpy as np
from sklearn.cluster import HDBSCAN
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from openworld import AdaptiveMetric
from openworld.data.letters import load_letters
from openworld.discovery import find_clusters, map_2d

N = 10_000
Data = tuple[np.ndarray, np.ndarray]


def unknown_letters() -> Data:
    """Return letters in a metric that was learned from other letters."""
    letters = load_letters()
    random = np.random.default_rng(1)
    known = np.isin(letters.labels, random.permutation(letters.classes)[:600])
    features, labels = letters.frequencies, np.unique(letters.labels, return_inverse=True)[1]
    metric = AdaptiveMetric(standardize=True).fit(features[known], labels[known])
    rows = np.sort(random.permutation(np.flatnonzero(~known))[:N])
    return metric.transform(features[rows]), labels[rows]


def directions(n_features: int, n_classes: int) -> Data:
    """Return unit vectors around random directions, as far from them as these are from each other."""
    random = np.random.default_rng(0)
    labels = np.arange(N) % n_classes
    vectors = random.standard_normal((n_classes, n_features), dtype=np.float32)[labels]
    vectors += random.standard_normal(vectors.shape, dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), labels


def ours(vectors: np.ndarray) -> np.ndarray:
    found = find_clusters(vectors, np.arange(len(vectors)))
    labels = np.full(len(vectors), -1)
    for cluster in found.clusters:
        labels[cluster.members] = cluster.id
    return labels


def theirs(vectors: np.ndarray) -> np.ndarray:
    labels: np.ndarray = HDBSCAN(min_cluster_size=5, copy=True).fit(vectors).labels_
    return labels


def measure(method: Callable[[np.ndarray], np.ndarray], data: Data) -> tuple[float, str]:
    vectors, truth = data
    method(vectors[:200])  # what is loaded on first use does not count
    tracemalloc.start()
    with threadpool_limits(1):
        start = perf_counter()
        labels = method(vectors)
        seconds = perf_counter() - start
    memory = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    alone = labels < 0
    # A sample in no cluster is a cluster of its own: leaving samples out earns nothing.
    agreement = adjusted_rand_score(truth, np.where(alone, labels.max() + 1 + np.arange(len(labels)), labels))
    n_found = len(np.unique(labels[~alone]))
    return seconds, (
        f"{seconds:.1f} s, {memory:.0f} MiB beyond the input, {n_found} clusters, "
        f"{alone.mean():.0%} in none, adjusted Rand index {agreement:.3f}"
    )


def main() -> None:
    print(f"clusters of {N:,} unknowns, one thread, against sklearn.cluster.HDBSCAN on the same vectors")
    for name, data in (
        ("unknown letters in metric space", unknown_letters()),
        ("200 random directions", directions(1_280, 200)),
    ):
        print(f"\n{name}, {data[0].shape[1]} dimensions, {len(np.unique(data[1]))} classes")
        ours_took, ours_told = measure(ours, data)
        print(f"find_clusters: {ours_told}")
        found = find_clusters(data[0], np.arange(N))
        start = perf_counter()
        map_2d(data[0], np.arange(N), found)
        print(f"map_2d of them: {perf_counter() - start:.1f} s", flush=True)
        theirs_took, theirs_told = measure(theirs, data)
        print(f"HDBSCAN: {theirs_told}")
        print(f"find_clusters takes {ours_took / theirs_took:.3f} times as long as HDBSCAN", flush=True)


if __name__ == "__main__":
    main()
