"""All that OpenWorldRecognizer keeps of the classes, changed together, and what was computed from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.recognition.adaptive.calibration import ScoreCalibration, calibrate
from openworld.recognition.adaptive.held_out import hold_out
from openworld.recognition.adaptive.metric import Whitening, represented_statistics
from openworld.recognition.adaptive.radial import length_statistics
from openworld.recognition.adaptive.representation import Representation
from openworld.recognition.adaptive.reservoir import Reservoir
from openworld.recognition.adaptive.scoring import ScoringModel, sorted_classes
from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.threshold import Objective
from openworld.recognition.validation import as_key

_CALIBRATION_SAMPLES = 3000


class ClassMemory:
    """Statistics of the represented samples, of their lengths, and a reservoir: always of the same classes.

    Attributes
    ----------
    representation : Representation
    statistics : ClassStatistics
        Of the represented samples, with pooled scatter.
    lengths : ClassStatistics
        Of the lengths of the samples, with the scatter of each class.
    reservoir : Reservoir
        A few samples of each class, for calibration.
    """

    def __init__(
        self,
        representation: Representation,
        statistics: ClassStatistics,
        lengths: ClassStatistics,
        reservoir: Reservoir,
    ) -> None:
        self.representation, self.statistics = representation, statistics
        self.lengths, self.reservoir = lengths, reservoir

    def add(self, samples: NDArray[Any], labels: NDArray[Any]) -> None:
        """Add labelled samples, all or nothing."""
        batch = represented_statistics(self.representation, samples, labels)
        lengths = length_statistics(samples, labels)
        self.statistics.check_combines(batch)
        parts = (self.statistics, self.lengths, self.reservoir)
        restore = [part.restorer(batch.labels) for part in parts]
        try:
            self.statistics += batch
            self.lengths += lengths
            self.reservoir.add(samples, labels)
        except BaseException:
            for undo in restore:
                undo()
            raise

    def forget(self, label: Any) -> None:
        """Forget a class."""
        self.statistics.forget(label)
        self.lengths.forget(label)
        self.reservoir.forget(label)

    def rename(self, old: Any, new: Any) -> None:
        """Give a class another name that no class has yet."""
        self.statistics.rename(old, new)
        self.lengths.rename(old, new)
        self.reservoir.rename(old, new)

    def merge(self, labels: Iterable[Any], into: Any) -> None:
        """Make one class of several."""
        parts = list(labels)
        self.statistics.merge(parts, into)
        self.lengths.merge(parts, into)
        self.reservoir.merge(parts, into)

    def empty(self) -> ClassMemory:
        """Return a memory of no class with the same representation."""
        nothing = ClassStatistics("pooled"), ClassStatistics("per_class"), self.reservoir.empty()
        return ClassMemory(self.representation, *nothing)

    def __add__(self, other: ClassMemory) -> ClassMemory:
        if not self.representation.is_same(other.representation):
            raise ValueError(
                "Only models with one representation can be added: make the parts with without_classes()."
            )
        reservoir = self.reservoir.copy()
        reservoir.merge_from(other.reservoir)
        statistics, lengths = self.statistics + other.statistics, self.lengths + other.lengths
        return ClassMemory(self.representation, statistics, lengths, reservoir)

    def calibrate(self, whitening: Whitening, objective: Objective) -> ScoreCalibration:
        """Calibrate on at most a few thousand samples, however many classes there are."""
        classes, order = sorted_classes(self.statistics)
        per_class = int(np.clip(_CALIBRATION_SAMPLES // len(classes), 2, self.reservoir.per_class))
        samples, codes = self.reservoir.samples(classes, per_class)
        held_out = hold_out(self.statistics, whitening, order, self.representation(samples), codes)
        return calibrate(held_out, objective, distances=not self.representation.directions)


@dataclass(frozen=True)
class Derived:
    """What was computed from the memory: the scoring model, or what is left of it after a change.

    Attributes
    ----------
    model : ScoringModel or None
        What predictions read; None after a change.
    calibration : ScoreCalibration or None
        With the metric of the time when there were `n_samples`.
    n_samples : float
    previous : ScoringModel or None
        The model before the change, of the same metric; only the `changed` classes differ.
    changed : frozenset
    """

    model: ScoringModel | None = None
    calibration: ScoreCalibration | None = None
    n_samples: float = 0.0
    previous: ScoringModel | None = None
    changed: frozenset[Any] = frozenset()

    def after_learning(self, labels: Iterable[Any]) -> Derived:
        """Return what is left after samples of some classes were learned."""
        changed = self.changed.union(map(as_key, labels))
        return replace(self, model=None, previous=self.model or self.previous, changed=changed)

    def renamed(self, old: Any, new: Any) -> Derived:
        """Return the same for a class under another name."""
        model, previous = (part and part.renamed(old, new) for part in (self.model, self.previous))
        changed = frozenset(new if label == old else label for label in self.changed)
        return replace(self, model=model, previous=previous, changed=changed)
