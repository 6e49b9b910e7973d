"""The space in which the unknown pool is clustered, with held-out samples of known classes in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.discovery.kernel import class_kernel
from openworld.recognition.adaptive.metric import Whitening
from openworld.recognition.adaptive.representation import Representation
from openworld.recognition.class_statistics import ClassStatistics

Floats = NDArray[np.floating[Any]]
Positions = NDArray[np.intp]

MOST_KNOWN = 2_400
MOST_OF_A_CLASS = 40
_ROWS_AT_ONCE = 4_096


@dataclass(frozen=True, eq=False)
class KnownSamples:
    """Samples of known classes that the space has not seen.

    Attributes
    ----------
    vectors : array of shape (n, d)
    codes : array of shape (n,)
        The class of each, as a number from 0.
    """

    vectors: Floats
    codes: Positions


@dataclass(frozen=True, eq=False)
class PoolSpace:
    """A map from feature space to the space in which the pool is clustered.

    Attributes
    ----------
    transform : callable
        Maps samples, shape (n, D), to vectors, shape (n, d).
    known : KnownSamples or None
        Samples the space has not seen; its origin is then the center of the known classes. None where the
        recognizer keeps no samples, so that the pool itself must say where its center is.
    """

    transform: Callable[[NDArray[Any]], Floats]
    known: KnownSamples | None

    @classmethod
    def of(cls, recognizer: Any | None) -> PoolSpace:
        """Return the space of a recognizer's metric.

        Where it is None, or knows fewer than two classes, it is the space of the features as they are.

        Where the recognizer keeps samples it is the metric without what it learned from some of them, which
        then stand for samples of unknown classes: to the metric as it is, the samples it was learned from
        look more alike than new ones.
        """
        if recognizer is None or len(recognizer.statistics_) < 2:
            return cls(np.asarray, None)
        if recognizer.keeps_samples:
            return _held_out(recognizer)
        return cls(lambda X: np.asarray(recognizer.metric_.transform(X)), None)


def unit(vectors: Floats) -> NDArray[np.float32]:
    """Divide each row by its length; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1.0), dtype=np.float32)


def _held_out(recognizer: Any) -> PoolSpace:
    recognizer.refresh()
    statistics, representation = recognizer.statistics_, recognizer.metric_.representation_
    samples, codes = _some_kept(recognizer)
    represented = representation(samples)
    labels = recognizer.classes_[codes]
    rest = statistics - ClassStatistics("pooled").add(represented, labels) if len(codes) else statistics
    whitening = Whitening.of(rest, recognizer.metric_.power)
    directions = _directions(whitening, representation, rest.means)

    def transform(X: NDArray[Any]) -> Floats:
        starts = range(0, max(len(X), 1), _ROWS_AT_ONCE)
        parts = (X[start : start + _ROWS_AT_ONCE] for start in starts)
        return np.concatenate([directions(representation(part)) for part in parts])

    return PoolSpace(transform, KnownSamples(directions(represented), codes))


def _directions(
    whitening: Whitening, representation: Representation, means: NDArray[np.float64]
) -> Callable[[Floats], NDArray[np.float32]]:
    """Return the map of represented samples to unit vectors from the center of the known classes."""
    if not representation.keeps_distances:
        return lambda represented: unit(whitening(represented))
    kernel = class_kernel(representation.n_dimensions)
    center = kernel(whitening(means.astype(np.float32))).mean(axis=0)
    return lambda represented: unit(kernel(whitening(represented)) - center)


def _some_kept(recognizer: Any) -> tuple[Floats, Positions]:
    """Return samples of the reservoir that the statistics can spare, and their classes.

    Of each class a third of its samples, or a half where it has few, and of very many classes some, evenly
    spaced.
    """
    statistics, classes = recognizer.statistics_, recognizer.classes_
    some = np.arange(0, len(classes), -(-len(classes) * 4 // MOST_KNOWN))
    samples, position = recognizer.reservoir_.samples(classes[some], MOST_OF_A_CLASS)
    counts = np.array([statistics.counts[statistics.row(label)] for label in classes[some]])[position]
    rank = np.arange(len(position)) - np.searchsorted(position, position)
    share = np.clip(counts // 3, np.minimum(counts // 2, 4), max(4, MOST_KNOWN // len(some)))
    spared = rank < share
    return samples[spared], some[position[spared]]
