"""`openworld evaluate discovery`: clusters of what a recognizer rejects, against the true classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import DBSCAN, HDBSCAN, KMeans
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.neighbors import NearestNeighbors

from openworld.data.dataset import Dataset
from openworld.discovery import PoolSpace, find_clusters
from openworld.discovery.clusters import MIN_SIZE
from openworld.discovery.linkage import few_dimensions
from openworld.discovery.space import unit
from openworld.evaluation.split import Split, make_split, usual_number_known
from openworld.recognition import OpenWorldRecognizer

Labels = NDArray[np.intp]
Row = dict[str, Any]

COLUMNS = ("data", "order", "K", "U", "method", "measure", "value")
MEASURES = ("clusters", "purity", "NMI", "ARI", "share clustered", "own cluster", "largest share")
OWN_PURITY = 0.8
FEWEST_PENDING = 10
_MOST_FOR_DENSITY = 20_000  # samples; HDBSCAN takes half a minute of processor time there, and grows as n²


@dataclass(frozen=True)
class DiscoveryExperiment:
    """Pools of rejected samples over class orders.

    Attributes
    ----------
    data : tuple of str
    orders, seed : int
        Class orders, and what determines them.
    n_known : int or None
        Classes that are learned; None for a fifth of them, from 10 to 100, and at most half.
    unknown : tuple of int
        Numbers of unknown classes in the pool; 0 stands for all that are left.
    """

    data: tuple[str, ...] = ("letters",)
    orders: int = 3
    seed: int = 31
    n_known: int | None = None
    unknown: tuple[int, ...] = (10, 40, 0)


@dataclass(frozen=True, eq=False)
class Pool:
    """Rejected samples: of unknown classes, and of known ones by mistake."""

    vectors: NDArray[np.floating[Any]]
    truth: Labels
    of_unknown_class: NDArray[np.bool_]


def measure_order(experiment: DiscoveryExperiment, dataset: Dataset, order: int) -> Iterator[Row]:
    """Fit one class order, and yield the measures of every method on every pool."""
    n_classes = len(np.unique(dataset.y))
    n_known = experiment.n_known or usual_number_known(n_classes)
    split = make_split(
        dataset,
        seed=experiment.seed,
        order=order,
        n_starting=n_known,
        step=1,
        n_known=n_known,
        n_unknown=0,
    )
    known = split.stages[0]
    unknown = np.random.default_rng([experiment.seed, order]).permutation(np.setdiff1d(dataset.y, known))
    train = split.train[np.isin(dataset.y[split.train], known)]
    model = OpenWorldRecognizer().fit(dataset.X[train], dataset.y[train])
    space = PoolSpace.of(model)
    rejected = _rejected(model, dataset, split, unknown)
    for n_unknown in experiment.unknown:
        chosen = unknown[: n_unknown or None]
        if len(chosen) < n_unknown:
            continue
        rows = rejected[np.isin(dataset.y[rejected], np.concatenate([known, chosen]))]
        truth = np.unique(dataset.y[rows], return_inverse=True)[1]
        pool = Pool(space.transform(dataset.X[rows]), truth, np.isin(dataset.y[rows], chosen))
        who = {"data": dataset.name, "order": order, "K": n_known, "U": len(chosen)}
        for method, labels in clusterings(pool, space, seed=order):
            for measure, value in measures(labels, pool).items():
                yield {**who, "method": method, "measure": measure, "value": value}


def _rejected(
    model: OpenWorldRecognizer, dataset: Dataset, split: Split, unknown: NDArray[Any]
) -> NDArray[np.intp]:
    """Return what the model rejects of the unknown classes and of the test samples of the known ones."""
    candidates = np.concatenate([np.flatnonzero(np.isin(dataset.y, unknown)), split.test])
    return np.asarray(candidates[~model.judge(dataset.X[candidates], 1).accepted])


def clusterings(pool: Pool, space: PoolSpace, seed: int = 0) -> Iterator[tuple[str, Labels]]:
    """Yield the labels of openworld and of the methods it is compared with, -1 for no cluster.

    The others get what openworld's search gets: the principal directions of the pool in metric space.
    k-means gets them at unit length, where it is stronger.
    """
    n = len(pool.truth)
    found = find_clusters(pool.vectors, np.arange(n), known=space.known)
    labels = np.full(n, -1)
    for cluster in found.clusters:
        labels[cluster.members] = cluster.id
    yield "openworld", labels
    few = few_dimensions(pool.vectors)
    true_k = len(np.unique(pool.truth))
    k_means = KMeans(true_k, n_init=1, random_state=seed)
    yield "k-means, true k", k_means.fit_predict(unit(few)).astype(np.intp)
    if n <= _MOST_FOR_DENSITY:
        yield "HDBSCAN", HDBSCAN(copy=True).fit(few).labels_.astype(np.intp)
        near = NearestNeighbors(n_neighbors=MIN_SIZE + 1).fit(few).kneighbors(few)[0][:, -1]
        yield "DBSCAN", DBSCAN(eps=float(np.median(near))).fit(few).labels_.astype(np.intp)


def measures(labels: Labels, pool: Pool) -> dict[str, float]:
    """Return the measures of a clustering; groups of fewer than 5 samples are no clusters.

    ARI counts samples in no cluster as clusters of their own, so leaving samples out earns nothing. A class
    has a cluster of its own if it is at least 80 % of some cluster; asked of the unknown classes with at
    least 10 samples in the pool.
    """
    found, codes = np.unique(labels, return_inverse=True)
    clustered = (found >= 0)[codes] & (np.bincount(codes)[codes] >= MIN_SIZE)
    alone = np.where(clustered, codes, len(found) + np.arange(len(codes)))
    result = {
        "clusters": float(len(np.unique(codes[clustered]))),
        "ARI": float(adjusted_rand_score(pool.truth, alone)),
        "share clustered": float(clustered.mean()),
    }
    wanted = np.flatnonzero(np.bincount(pool.truth[pool.of_unknown_class], minlength=1) >= FEWEST_PENDING)
    if not clustered.any():
        return {**result, "purity": 1.0, "NMI": 0.0, "own cluster": 0.0, "largest share": 0.0}
    counts = np.zeros((len(found), pool.truth.max() + 1))
    np.add.at(counts, (codes[clustered], pool.truth[clustered]), 1)
    sizes, commonest = counts.sum(axis=1), counts.max(axis=1)
    pure = (sizes > 0) & (commonest >= OWN_PURITY * sizes)
    own = np.isin(wanted, counts.argmax(axis=1)[pure])
    return {
        **result,
        "purity": float(commonest.sum() / sizes.sum()),
        "NMI": float(normalized_mutual_info_score(pool.truth[clustered], codes[clustered])),
        "own cluster": float(own.mean()) if len(wanted) else float("nan"),
        "largest share": float(sizes.max() / len(codes)),
    }
