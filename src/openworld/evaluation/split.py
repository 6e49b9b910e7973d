"""Splits of classes into stages and of samples into training, validation and test parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.data.dataset import Dataset
from openworld.recognition.validation import rank_in_class

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Split:
    """One class order: classes of each stage, unknown classes, and sample parts.

    Attributes
    ----------
    stages : tuple of arrays
        The classes learned at each stage: the starting classes first, then those added.
    unknown : array
        The classes never learned, disjoint from all stages; the first U are used with U unknown classes.
    train, validation, test : arrays of indices into the data set
        Disjoint; samples of the chosen classes only.
    """

    stages: tuple[NDArray[Any], ...]
    unknown: NDArray[Any]
    train: Indices
    validation: Indices
    test: Indices

    def known(self, stage: int) -> NDArray[Any]:
        """Return the classes known after a stage."""
        return np.concatenate(self.stages[: stage + 1])


def make_split(
    dataset: Dataset,
    *,
    seed: int,
    order: int,
    n_starting: int,
    step: int,
    n_known: int,
    n_unknown: int,
    test_fraction: float = 0.3,
    validation_fraction: float = 0.0,
) -> Split:
    """Draw a class order and split the samples of its classes.

    Parameters
    ----------
    dataset : Dataset
        With `is_test`, that part is the test; with `groups`, whole groups go to one part; otherwise each
        class is split at random.
    seed, order : int
        Together they determine the split.
    n_starting, step, n_known, n_unknown : int
        Starting classes, classes added at each stage, classes known at the end, unknown classes.
    test_fraction, validation_fraction : float
        Shares of the samples (or groups) for test and validation. Where the data set comes with a test
        part, the second is a share of the rest.
    """
    random = np.random.default_rng([seed, order])
    part = _sample_parts(dataset, random, test_fraction, validation_fraction)
    classes = _usable_classes(dataset, part)
    if len(classes) < n_known + n_unknown:
        raise ValueError(
            f"{dataset.name} has {len(classes)} classes with training and test samples; "
            f"{n_known} known and {n_unknown} unknown ones were asked for."
        )
    classes = random.permutation(classes)
    edges = [*range(n_starting, n_known, step), n_known]
    stages = tuple(np.split(classes[:n_known], edges[:-1]))
    unknown = classes[n_known : n_known + n_unknown]
    chosen = np.isin(dataset.y, classes[: n_known + n_unknown])
    train, validation, test = (np.flatnonzero(chosen & (part == which)) for which in range(3))
    return Split(stages, unknown, train, validation, test)


def usable_classes(
    dataset: Dataset, *, seed: int, orders: int, test_fraction: float, validation_fraction: float = 0.0
) -> int:
    """Return the number of classes that every class order can use."""
    counts = []
    for order in range(orders):
        random = np.random.default_rng([seed, order])
        part = _sample_parts(dataset, random, test_fraction, validation_fraction)
        counts.append(len(_usable_classes(dataset, part)))
    return min(counts)


def usual_number_known(n_classes: int) -> int:
    """Return how many of so many classes are known where unknown ones are clustered."""
    return min(max(n_classes // 5, 10), 100, max(n_classes // 2, 1))


def require_classes(dataset: Dataset, available: int) -> None:
    """Refuse a data set with too few classes for any experiment."""
    if available < 4:
        raise ValueError(
            f"{dataset.name}: {available} usable classes are too few for an experiment, which needs 4. A "
            "class is usable if it has samples to train and to test with."
        )


def _sample_parts(
    dataset: Dataset, random: np.random.Generator, test_fraction: float, validation_fraction: float
) -> NDArray[np.int8]:
    """Return 0 for training, 1 for validation and 2 for test, for every sample."""
    part = np.zeros(len(dataset.y), dtype=np.int8)
    share = validation_fraction
    if dataset.is_test is not None:
        part[dataset.is_test] = 2
    else:
        part[_draw(dataset, np.arange(len(part)), random, test_fraction)] = 2
        share = validation_fraction / (1 - test_fraction)  # of what the test leaves
    part[_draw(dataset, np.flatnonzero(part == 0), random, share)] = 1
    return part


def _draw(dataset: Dataset, samples: Indices, random: np.random.Generator, fraction: float) -> Indices:
    """Draw a share of the samples: whole groups where there are groups, else a share of each class."""
    if fraction == 0 or not len(samples):
        return np.empty(0, dtype=np.intp)
    if dataset.groups is None:
        return np.asarray(samples[_draw_of_classes(dataset.y[samples], random, fraction)])
    names, group_of = np.unique(dataset.groups[samples], return_inverse=True)
    n_drawn = max(1, round(fraction * len(names)))
    if n_drawn >= len(names):
        raise ValueError(f"{dataset.name}: {len(names)} groups are too few to split {fraction:.0%} off.")
    return np.asarray(samples[np.isin(group_of, random.permutation(len(names))[:n_drawn])])


def _draw_of_classes(labels: NDArray[Any], random: np.random.Generator, fraction: float) -> Indices:
    """Draw a share of the samples of each class, at least one."""
    codes = np.unique(labels, return_inverse=True)[1]
    wanted = np.maximum(1, np.round(fraction * np.bincount(codes)))
    return np.flatnonzero(rank_in_class(codes, random.permutation(len(codes))) < wanted[codes])


def _usable_classes(dataset: Dataset, part: NDArray[np.int8]) -> NDArray[Any]:
    """Return the classes with at least two training samples and one test sample."""
    classes, codes = np.unique(dataset.y, return_inverse=True)
    n_train = np.bincount(codes[part == 0], minlength=len(classes))
    n_test = np.bincount(codes[part == 2], minlength=len(classes))
    return np.asarray(classes[(n_train >= 2) & (n_test >= 1)])
