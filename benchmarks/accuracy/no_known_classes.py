"""Clusters of pictures, texts and vectors of which no class is known, against generic methods.

    python -m benchmarks.accuracy.no_known_classes FOLDER    # of benchmarks.accuracy.prepare

Pools of 3, 10, 25 and 60 classes: means over eight data sets and two draws of classes, which chose nothing.
In one draw each class has 100 samples, in the other all have the same random number, 10 to 59. *Before* is
the constant cut of .8.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import HDBSCAN, KMeans

from benchmarks.accuracy.clusters_of_tables import clustered, codes
from openworld.discovery import granularity
from openworld.discovery.linkage import few_dimensions
from openworld.discovery.space import unit
from openworld.evaluation.datasets import load
from openworld.evaluation.discovery import Pool, measures

DATA = ["caltech101-deep", "clinc150", "banking77", "cifar100-deep", "cub200-deep", "omniglot"]
DATA += ["ilsvrc10-sift", "letters"]
SIZES = (3, 10, 25, 60)
SEEDS = (9, 10)
MOST = 100  # samples of a class
SHOWN = ("purity", "own cluster", "share clustered", "ARI")


def pools(folder: Path) -> Iterator[tuple[str, int, Pool]]:
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        for name in DATA:
            dataset = load(name if name == "letters" else str(folder / f"{name}.npz"))
            classes = np.unique(dataset.y)
            for n_classes in SIZES:
                if n_classes > len(classes):
                    continue
                chosen = random.permutation(classes)[:n_classes]
                size = int(random.integers(10, 60)) if seed % 2 else MOST
                rows = np.concatenate(
                    [random.permutation(np.flatnonzero(dataset.y == label))[:size] for label in chosen]
                )
                yes = np.ones(len(rows), dtype=bool)
                yield name, n_classes, Pool(dataset.X[rows], codes(dataset.y[rows]), yes)


def with_constant_cut(pool: Pool) -> dict[str, float]:
    with patch.object(granularity, "_NO_CLUSTERS", np.inf):
        return clustered(pool)


def _generic(cluster: Callable[[NDArray[np.float32], int], NDArray[np.intp]], pool: Pool) -> dict[str, float]:
    few = few_dimensions(pool.vectors - pool.vectors.mean(axis=0))
    return measures(cluster(few, pool.truth.max() + 1), pool)


def k_means(pool: Pool) -> dict[str, float]:
    return _generic(lambda X, k: KMeans(k, n_init=1, random_state=0).fit_predict(unit(X)), pool)


def hdbscan(pool: Pool) -> dict[str, float]:
    return _generic(lambda X, _: HDBSCAN(copy=True).fit(X).labels_, pool)


METHODS = {"before": with_constant_cut, "now": clustered, "k-means, true k": k_means, "HDBSCAN": hdbscan}


def main() -> None:
    warnings.simplefilter("ignore")
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found: dict[tuple[str, object], list[list[float]]] = {}
    for name, n_classes, pool in pools(Path(sys.argv[1])):
        for method, measure in METHODS.items():
            values = measure(pool)
            for key in (name, n_classes, "all"):
                found.setdefault((method, key), []).append([values[shown] for shown in SHOWN])
    print(f"| pools | {' | '.join(METHODS)} |")
    print("|---" * (len(METHODS) + 1) + "|")
    for key in (*DATA, *SIZES, "all"):
        means = [np.nanmean(found[method, key], axis=0) for method in METHODS]
        cells = " | ".join(" / ".join(f"{value:.2f}".lstrip("0") for value in mean) for mean in means)
        print(f"| {key if isinstance(key, str) else f'{key} classes'} | {cells} |")


if __name__ == "__main__":
    main()
