"""A map of the pool in two dimensions: clusters as discs, similar ones near each other.

The medoids of the clusters are laid out by t-SNE, which is quick because they are few. Around its medoid
a cluster is a disc: the members in the order of their distance to the medoid from the middle outwards, so
that the doubtful ones are at the rim. Samples in no cluster stand between the medoids they are nearest to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import KDTree
from sklearn.manifold import TSNE
from sklearn.metrics.pairwise import euclidean_distances

from openworld.discovery.clusters import Cluster, Clustering, sorted_by_id
from openworld.discovery.linkage import few_dimensions

Floats = NDArray[np.floating[Any]]
Doubles = NDArray[np.float64]
Positions = NDArray[np.intp]

MOST_LANDMARKS = 1_000
_FEWEST_FOR_TSNE = 5
_PERPLEXITY = 15.0
_LEARNING_RATE = 10.0  # below t-SNE's usual one, at which few points never come to rest
_BETWEEN = 3  # landmarks that decide where anything else stands
_ROWS_AT_ONCE = 8_192
_LARGEST_DISC = 0.45  # of the way to the next disc's middle, so that discs do not touch


@dataclass(frozen=True, eq=False)
class PoolMap:
    """Where each sample of the pool stands.

    Attributes
    ----------
    ids : array of shape (n,)
        Sample ids, ascending.
    positions : array of shape (n, 2)
    """

    ids: NDArray[Any]
    positions: Doubles

    def find(self, ids: NDArray[Any]) -> tuple[Doubles, NDArray[np.bool_]]:
        """Return the positions of some samples, and which of them are on the map (the others are at 0)."""
        if not len(self.ids):
            return np.zeros((len(ids), 2)), np.zeros(len(ids), dtype=bool)
        rows = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        here = self.ids[rows] == ids
        return np.where(here[:, np.newaxis], self.positions[rows], 0.0), here


def map_2d(
    vectors: ArrayLike, ids: ArrayLike, clustering: Clustering, previous: PoolMap | None = None
) -> PoolMap:
    """Lay the pool out in two dimensions.

    Parameters
    ----------
    vectors : array of shape (n, d)
    ids : array of shape (n,)
        Sample ids, each once.
    clustering : Clustering
        Of these samples.
    previous : PoolMap, optional
        The map before: the layout starts from it and is turned back to it, so that what stayed in the
        pool stays about where it was.

    Returns
    -------
    PoolMap
        The same for the same input, in whatever order.

    Notes
    -----
    At most 1,000 clusters, the largest, are laid out by t-SNE; the middles of the others stand between
    those nearest to them, so their discs may overlap.
    """
    full, names = sorted_by_id(vectors, ids)
    samples = few_dimensions(full)
    before = previous or PoolMap(names[:0], np.empty((0, 2)))
    clusters = sorted(clustering.clusters, key=lambda cluster: (-len(cluster), cluster.id))
    members = np.concatenate([names[:0], *(cluster.members for cluster in clusters)])
    if not np.isin(members, names, assume_unique=True).all():
        raise ValueError("clustering has members that are not among the ids: cluster the same samples first.")
    medoids = np.searchsorted(names, [cluster.medoid for cluster in clusters])
    landmarks = medoids[:MOST_LANDMARKS]
    if len(landmarks) < 2:
        flat = _flat(samples)
        return PoolMap(names, _turned_back(flat, *before.find(names)))
    layout = _layout(samples[landmarks], *_middles(before, clusters[:MOST_LANDMARKS]))
    positions = _between(samples, samples[landmarks], layout)
    positions[landmarks] = layout
    middles = positions[medoids]
    for cluster, middle, room in zip(clusters, middles, _rooms(clusters, middles), strict=True):
        rows = np.searchsorted(names, cluster.members)
        positions[rows] = middle + room * _disc(samples[rows])
    return PoolMap(names, positions)


def _middles(before: PoolMap, clusters: Sequence[Cluster]) -> tuple[Doubles, NDArray[np.bool_]]:
    """Return where each cluster was on a map (its medoid, else the middle of its members), and if it was."""
    found = [before.find(cluster.members) for cluster in clusters]
    middles = np.zeros((len(clusters), 2))
    for middle, (old, here) in zip(middles, found, strict=True):
        if here.any():
            middle[:] = old[0] if here[0] else np.median(old[here], axis=0)
    return middles, np.array([here.any() for _, here in found])


def _flat(samples: Floats) -> Doubles:
    """Return the first two principal components, the missing ones as zeros."""
    flat = np.zeros((len(samples), 2))
    if len(samples):
        left, lengths, right = np.linalg.svd(samples - samples.mean(axis=0), full_matrices=False)
        components = left[:, :2] * lengths[:2]
        # The sign of a component is arbitrary; this makes it the same on every machine.
        rows = right[: components.shape[1]]
        flat[:, : components.shape[1]] = components * np.where(rows.sum(axis=1) < 0, -1.0, 1.0)
    return flat


def _layout(landmarks: Floats, before: Doubles, known: NDArray[np.bool_]) -> Doubles:
    """Return positions of the landmarks, from where they were before if enough of them are known."""
    if len(landmarks) < _FEWEST_FOR_TSNE:
        return _turned_back(_flat(landmarks), before, known)
    start = _flat(landmarks)
    start /= max(float(start.std()), np.finfo(np.float64).tiny)
    exaggeration, max_iter = 4.0, 1_000
    if known.sum() >= _FEWEST_FOR_TSNE:
        start = np.where(known[:, np.newaxis], before, _between(landmarks, landmarks[known], before[known]))
        exaggeration, max_iter = 1.0, 300
    tsne = TSNE(
        init=start.astype(np.float32),
        perplexity=min(_PERPLEXITY, (len(landmarks) - 1) / 3),
        early_exaggeration=exaggeration,
        learning_rate=_LEARNING_RATE,
        max_iter=max_iter,
        random_state=0,
        n_jobs=1,
    )
    return _turned_back(np.asarray(tsne.fit_transform(landmarks), dtype=np.float64), before, known)


def _turned_back(positions: Doubles, before: Doubles, known: NDArray[np.bool_]) -> Doubles:
    """Turn, mirror, scale and move positions so that the known ones come nearest to where they were."""
    if not known.any():
        return positions
    old_middle, new_middle = before[known].mean(axis=0), positions[known].mean(axis=0)
    old, new = before[known] - old_middle, positions[known] - new_middle
    left, _, right = np.linalg.svd(new.T @ old)
    old_size, new_size = float(np.linalg.norm(old)), float(np.linalg.norm(new))
    scale = old_size / new_size if old_size > 0 and new_size > 0 else 1.0
    return np.asarray(scale * (positions - new_middle) @ (left @ right) + old_middle)


def _between(samples: Floats, landmarks: Floats, layout: Doubles) -> Doubles:
    """Return the mean position of the landmarks nearest to each sample, the nearer weighing more."""
    n_nearest = min(_BETWEEN, len(landmarks))
    positions = np.empty((len(samples), 2))
    for start in range(0, len(samples), _ROWS_AT_ONCE):
        block = slice(start, start + _ROWS_AT_ONCE)
        distances = euclidean_distances(samples[block], landmarks)
        nearest = np.argpartition(distances, n_nearest - 1, axis=1)[:, :n_nearest]
        # In many dimensions distances differ little; the power makes the difference visible.
        weights = np.maximum(np.take_along_axis(distances, nearest, axis=1), 1e-6).astype(np.float64) ** -4
        weights /= weights.sum(axis=1, keepdims=True)
        positions[block] = np.einsum("ij,ijk->ik", weights, layout[nearest])
    return positions


def _rooms(clusters: Sequence[Cluster], middles: Doubles) -> Doubles:
    """Return the radius of each disc: its area goes with its size, unless it would touch another disc."""
    gaps = np.asarray(KDTree(middles).query(middles, k=2)[0])[:, 1]
    roots = np.sqrt([len(cluster) for cluster in clusters])
    usual = _LARGEST_DISC * float(np.median(gaps)) / float(np.median(roots))
    return np.asarray(np.minimum(usual * roots, _LARGEST_DISC * gaps))


def _disc(members: Floats) -> Doubles:
    """Fill the unit disc with members that come in the order of their distance to the first."""
    offsets = members - members[0]
    # Two directions common to all clusters, not the cluster's own: a few members more do not turn it.
    angles = np.arctan2(offsets[:, 1 % members.shape[1]], offsets[:, 0])
    radii = np.sqrt(np.arange(len(members)) / len(members))
    return np.column_stack([radii * np.cos(angles), radii * np.sin(angles)])
