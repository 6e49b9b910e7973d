"""All that OpenWorldRecognizer keeps of the classes, changed together, and what was computed from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from openworld.index.growing_rows import in_turn
from openworld.recognition.adaptive.calibration import ScoreCalibration, calibrate
from openworld.recognition.adaptive.held_out import hold_out
from openworld.recognition.adaptive.metric import AdaptiveMetric, Whitening, represented_statistics
from openworld.recognition.adaptive.radial import length_statistics
from openworld.recognition.adaptive.representation import Representation
from openworld.recognition.adaptive.reservoir import Reservoir
from openworld.recognition.adaptive.scoring import ScoringModel, sorted_classes
from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.threshold import Objective
from openworld.recognition.validation import as_array, as_key, check_labels, check_unknown_label

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
        restore = self.restorer(batch.labels)
        try:
            self.statistics += batch
            self.lengths += lengths
            self.reservoir.add(samples, labels)
        except BaseException:
            restore()
            raise

    def restorer(self, labels: Iterable[Any]) -> Callable[[], None]:
        """Return a function that undoes the next change of these classes, whatever was done of it."""
        names = list(labels)
        return in_turn([part.restorer(names) for part in (self.statistics, self.lengths, self.reservoir)])

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

    def restorer(self, labels: Iterable[Any]) -> Callable[[], None]:
        """Return a function that undoes what learning these classes does to the scoring model in place."""
        model = self.model or self.previous
        return in_turn([] if model is None else [model.restorer(map(as_key, labels))])

    def renamed(self, old: Any, new: Any) -> Derived:
        """Return the same for a class under another name."""
        model, previous = (part and part.renamed(old, new) for part in (self.model, self.previous))
        changed = frozenset(new if label == old else label for label in self.changed)
        return replace(self, model=model, previous=previous, changed=changed)


class ClassMemoryMixin:
    """What a recognizer with a `ClassMemory` offers: correcting classes and adding models.

    It passes calls on to `memory_`, which `fit` makes, and drops what was computed from it.
    """

    memory_: ClassMemory
    metric_: AdaptiveMetric
    unknown_label_: Any
    _derived: Derived

    @property
    def classes_(self) -> NDArray[Any]:
        """The known classes, sorted."""
        return sorted_classes(self.statistics_)[0]

    @property
    def statistics_(self) -> ClassStatistics:
        """Counts, sums and scatter of the represented samples."""
        check_is_fitted(self)
        return self.memory_.statistics

    @property
    def reservoir_(self) -> Reservoir:
        """The samples kept for calibration."""
        check_is_fitted(self)
        return self.memory_.reservoir

    def class_mean(self, label: Any) -> NDArray[np.float64]:
        """Return the mean of the samples kept of a class, shape (D,).

        The mean of all its samples is kept in the space of the representation only.
        """
        self.statistics_.row(label)
        kept, _ = self.reservoir_.samples(np.array([label]), self.reservoir_.per_class)
        return np.asarray(kept.mean(axis=0), dtype=np.float64)

    # -- correcting -------------------------------------------------------------------------------

    def forget_class(self, label: Any) -> None:
        """Forget a class; at least one stays."""
        if label in self.statistics_ and len(self.statistics_) <= 1:
            raise ValueError("OpenWorldRecognizer needs at least 1 class; the last one cannot go.")
        self.memory_.forget(label)
        self._derived = Derived()

    def rename_class(self, old: Any, new: Any) -> None:
        """Give a class another name that no class has yet."""
        self._check_new_label(new)
        self.memory_.rename(old, new)
        self._derived = self._derived.renamed(as_key(old), as_key(new))

    def merge_classes(self, labels: Iterable[Any], into: Any) -> None:
        """Make one class of several, with the mean of all their samples."""
        parts = list(dict.fromkeys(as_key(label) for label in labels))
        self._check_new_label(into)
        self.memory_.merge(parts, into)
        self._derived = Derived()

    def restorer(self, labels: Iterable[Any]) -> Callable[[], None]:
        """Return a function that undoes the next change of these classes, to the last bit."""
        check_is_fitted(self)
        names = list(labels)
        attributes = [partial(vars(part).update, dict(vars(part))) for part in (self, self.metric_)]
        return in_turn([*attributes, self.memory_.restorer(names), self._derived.restorer(names)])

    def _check_new_label(self, label: Any) -> None:
        check_is_fitted(self)
        check_unknown_label(self.unknown_label_, check_labels([as_key(label)]))

    # -- adding models ----------------------------------------------------------------------------

    def without_classes(self) -> Self:
        """Return a copy with the same representation that knows no class yet, to learn a part elsewhere."""
        check_is_fitted(self)
        return self._with(self.memory_.empty())

    def __add__(self, other: Self) -> Self:
        if type(self) is not type(other):
            raise ValueError("Only models of one kind can be added: make the parts with without_classes().")
        for part in (self, other):
            check_is_fitted(part)
        memory = self.memory_ + other.memory_
        if len(other.statistics_):
            check_unknown_label(self.unknown_label_, as_array(other.statistics_.labels))
        return self._with(memory)

    def _with(self, memory: ClassMemory) -> Self:
        """Return a copy with another memory."""
        other = copy(self)
        other.metric_ = copy(self.metric_)
        other.metric_.statistics_ = memory.statistics
        other.memory_, other._derived = memory, Derived()
        return other
