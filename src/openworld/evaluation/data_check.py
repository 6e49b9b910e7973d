"""Checks of labeled data that need no model: few samples, copies, constant columns."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from openworld.data.values import group_numbers

FEW_SAMPLES = 5
MOST_COMPARED = 2000
_NEAR = 0.05  # of the usual distance between neighbors
_FEWEST_TO_COUNT = 10  # samples in which a column cannot be in order by chance
_DOMINATES = 0.95  # of the variance of all features
PARTS_OF_DATA = frozenset(
    {"train", "training", "test", "testing", "val", "valid", "validation", "dev", "eval", "holdout"}
)


@dataclass(frozen=True)
class DataCheck:
    """What was found.

    Attributes
    ----------
    few : list of (label, samples)
        Classes with fewer than five samples, the smallest first.
    copies : list of (position, position)
        The same sample in two classes.
    near_copies : list of (position, position)
        Nearly the same sample in two classes.
    copies_within : float
        Share of the samples with an exact copy in their own class and in another group; without groups,
        every sample is a group of its own.
    constant : list of int
        Features with one value throughout.
    dominating : list of int
        Features with nearly all of the variance.
    counting : list of int
        Features of whole numbers that only grow, or only fall, from sample to sample: a time or a number of
        the sample, as tables sorted by class have them.
    parts : list of str
        Classes that are named like parts of a data set, `train` or `test`.
    """

    few: list[tuple[Any, int]] = field(default_factory=list)
    copies: list[tuple[int, int]] = field(default_factory=list)
    near_copies: list[tuple[int, int]] = field(default_factory=list)
    copies_within: float = 0.0
    constant: list[int] = field(default_factory=list)
    dominating: list[int] = field(default_factory=list)
    counting: list[int] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)


def check_data(
    X: NDArray[Any], y: NDArray[Any], *, groups: NDArray[Any] | None = None, seed: int = 0
) -> DataCheck:
    """Look for problems in labeled data that make a model worse.

    Parameters
    ----------
    X : array of shape (n, D)
    y : array of shape (n,)
    groups : array of str of shape (n,), optional
        Samples of one group may be copies of each other; "" for a sample that is a group of its own.
    seed : int, default=0
        Chooses the 2,000 samples among which near copies are looked for.
    """
    classes, counts = np.unique(y, return_counts=True)
    order = np.argsort(counts, kind="stable")
    few = [(classes[i].item(), int(counts[i])) for i in order if counts[i] < FEW_SAMPLES]
    keys = [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in np.ascontiguousarray(X)]
    copies = _copies(keys, y)
    within = _copies_within(keys, y, np.arange(len(y)) if groups is None else group_numbers(groups))
    spread = np.std(X, axis=0, dtype=np.float64)
    constant = np.flatnonzero(spread == 0).tolist()
    share = spread**2 / max(float(np.sum(spread**2)), np.finfo(float).tiny)
    dominating = np.flatnonzero(share > _DOMINATES).tolist() if X.shape[1] - len(constant) > 1 else []
    near = _near_copies(X, y, set(copies), seed)
    parts = parts_among(classes.tolist())
    return DataCheck(few, copies, near, within, constant, dominating, _counting(X), parts)


def _counting(X: NDArray[Any]) -> list[int]:
    """Return the features of whole numbers that only grow or only fall from sample to sample."""
    if len(X) < _FEWEST_TO_COUNT:
        return []
    with np.errstate(invalid="ignore"):
        steps = np.diff(X.astype(np.float64, copy=False), axis=0)
    one_way = np.all(steps > 0, axis=0) | np.all(steps < 0, axis=0)
    return [int(i) for i in np.flatnonzero(one_way) if np.all(X[:, i] == np.floor(X[:, i]))]


def parts_among(classes: Sequence[Any]) -> list[str]:
    """Return the classes that are named like parts of a data set, if most of them are."""
    found = [str(label) for label in classes if str(label).casefold() in PARTS_OF_DATA]
    return found if len(found) > 1 and 2 * len(found) > len(classes) else []


def _copies(keys: list[bytes], y: NDArray[Any]) -> list[tuple[int, int]]:
    first: dict[bytes, int] = {}
    found = []
    for i, key in enumerate(keys):
        other = first.setdefault(key, i)
        if y[other] != y[i]:
            found.append((other, i))
    return found


def _copies_within(keys: list[bytes], y: NDArray[Any], groups: NDArray[np.intp]) -> float:
    """Return the share of the samples with the same key as a sample of their class in another group."""
    samples = list(zip(keys, y.tolist(), strict=True))
    found: dict[tuple[bytes, Any], set[int]] = {}
    for sample, group in zip(samples, groups.tolist(), strict=True):
        found.setdefault(sample, set()).add(group)
    return sum(len(found[sample]) > 1 for sample in samples) / max(len(samples), 1)


def _near_copies(
    X: NDArray[Any], y: NDArray[Any], copies: set[tuple[int, int]], seed: int
) -> list[tuple[int, int]]:
    """Return pairs of two classes that are much closer than neighbors usually are."""
    chosen = np.sort(np.random.default_rng(seed).permutation(len(X))[:MOST_COMPARED])
    if len(chosen) < 10:
        return []
    scaled = StandardScaler().fit_transform(X[chosen].astype(np.float64))
    distances, neighbors = NearestNeighbors(n_neighbors=2).fit(scaled).kneighbors(scaled)
    usual = float(np.median(distances[:, 1]))
    near = np.flatnonzero(distances[:, 1] < _NEAR * usual)
    pairs = {tuple(sorted((int(chosen[i]), int(chosen[neighbors[i, 1]])))) for i in near}
    return sorted((a, b) for a, b in pairs if y[a] != y[b] and (a, b) not in copies)
