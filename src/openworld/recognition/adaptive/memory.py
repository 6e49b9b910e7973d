"""The learned state of OpenWorldRecognizer, updated all or nothing, and the scoring model derived from it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from openworld.index.growing_rows import Restorer
from openworld.recognition.adaptive.calibration import FEW_FEATURES, calibrate
from openworld.recognition.adaptive.held_out import HeldOut, hold_out, step_of_judged
from openworld.recognition.adaptive.metric import AdaptiveMetric, Whitening, represented_statistics
from openworld.recognition.adaptive.radial import length_statistics
from openworld.recognition.adaptive.representation import Representation
from openworld.recognition.adaptive.reservoir import Reservoir
from openworld.recognition.adaptive.score import ScoreCalibration
from openworld.recognition.adaptive.scoring import (
    ScoringModel,
    make_scoring_model,
    shown_samples,
    sorted_classes,
)
from openworld.recognition.adaptive.training import TrainingBatch
from openworld.recognition.class_statistics import ClassStatistics
from openworld.recognition.locking import lock_of
from openworld.recognition.threshold import Objective
from openworld.recognition.validation import (
    as_array,
    as_key,
    check_labels,
    check_range,
    check_samples,
    check_unknown_label,
)

_CALIBRATION_SAMPLES = 3000
_MOST_UNKNOWNS = 300  # samples of no class that are kept
_NO_CLASS = ""  # under which they are kept


class ClassMemory:
    """Statistics of the represented samples and of their lengths, and a reservoir, always updated together.

    Attributes
    ----------
    representation : Representation
    statistics : ClassStatistics
        Of the represented samples, with pooled scatter.
    lengths : ClassStatistics
        Of the lengths of the samples, with the scatter of each class.
    reservoir : Reservoir
        A few samples of each class, for calibration.
    unknowns : Reservoir
        Some samples that a person said are of no class, for the threshold.
    """

    def __init__(
        self,
        representation: Representation,
        statistics: ClassStatistics,
        lengths: ClassStatistics,
        reservoir: Reservoir,
        unknowns: Reservoir | None = None,
    ) -> None:
        self.representation, self.statistics = representation, statistics
        self.lengths, self.reservoir = lengths, reservoir
        self.unknowns = (
            unknowns if unknowns is not None else Reservoir(_MOST_UNKNOWNS, _MOST_UNKNOWNS, reservoir.dtype)
        )

    def add(self, batch: TrainingBatch) -> None:
        """Add labeled samples and known unknowns, all or nothing."""
        samples, labels, groups, unknowns = batch
        statistics, lengths = ClassStatistics("pooled"), ClassStatistics("per_class")
        if len(samples):
            statistics = represented_statistics(self.representation, samples, labels)
            lengths = length_statistics(samples, labels)
            self.statistics.check_combines(statistics)
        restore = self.restorer(statistics.labels)
        try:
            if len(samples):
                self.statistics += statistics
                self.lengths += lengths
                self.reservoir.add(samples, labels, groups)
            if len(unknowns):
                self.unknowns.add(unknowns, np.full(len(unknowns), _NO_CLASS))
        except BaseException:
            restore()
            raise

    def restorer(self, labels: Iterable[Any]) -> Restorer:
        """Return a function that undoes the next change to these classes, even if it stopped halfway."""
        names = list(labels)
        parts = [part.restorer(names) for part in (self.statistics, self.lengths, self.reservoir)]
        return Restorer([*parts, self.unknowns.restorer([_NO_CLASS])])

    def kept_unknowns(self) -> NDArray[Any]:
        """Return the stored known unknowns, shape (m, D), or (0,) if there are none."""
        return self.unknowns.samples(np.array([_NO_CLASS]), _MOST_UNKNOWNS)[0]

    def forget(self, label: Any) -> None:
        """Forget a class."""
        self.statistics.forget(label)
        self.lengths.forget(label)
        self.reservoir.forget(label)

    def rename(self, old: Any, new: Any) -> None:
        """Rename a class. No other class may have the new name."""
        self.statistics.rename(old, new)
        self.lengths.rename(old, new)
        self.reservoir.rename(old, new)

    def merge(self, labels: Iterable[Any], into: Any) -> None:
        """Merge several classes into one."""
        parts = list(labels)
        self.statistics.merge(parts, into)
        self.lengths.merge(parts, into)
        self.reservoir.merge(parts, into)

    def empty(self) -> ClassMemory:
        """Return a memory without classes that has the same representation."""
        nothing = ClassStatistics("pooled"), ClassStatistics("per_class"), self.reservoir.empty()
        return ClassMemory(self.representation, *nothing, self.unknowns.empty())

    def __add__(self, other: ClassMemory) -> ClassMemory:
        if not self.representation.is_same(other.representation):
            raise ValueError(
                "Only models with one representation can be added. Make the parts with without_classes()."
            )
        reservoir = self.reservoir.copy()
        reservoir.merge_from(other.reservoir)
        unknowns = self.unknowns.copy()
        unknowns.merge_from(other.unknowns)
        statistics, lengths = self.statistics + other.statistics, self.lengths + other.lengths
        return ClassMemory(self.representation, statistics, lengths, reservoir, unknowns)

    def calibrate(self, whitening: Whitening, objective: Objective) -> tuple[ScoreCalibration, HeldOut]:
        """Calibrate on at most a few thousand samples, whatever the number of classes.

        Returns
        -------
        calibration : ScoreCalibration
        held_out : HeldOut
            The whitened means of the sorted classes, and the samples that show how tight these are, some of
            which calibration used.
        """
        classes, order = sorted_classes(self.statistics)
        samples, codes, grouping = shown_samples(self.reservoir, classes, len(classes))
        unknowns = self.kept_unknowns()
        of_unknowns = self.representation(unknowns) if len(unknowns) else None
        represented = self.representation(samples)
        held_out = hold_out(self.statistics, whitening, order, represented, codes, grouping, of_unknowns)
        per_class = min(max(_CALIBRATION_SAMPLES // len(classes), 2), self.reservoir.per_class)
        judged = held_out.some(per_class, step_of_judged(per_class * len(classes), len(classes)))
        few = self.representation.n_features <= FEW_FEATURES
        distances = self.representation.keeps_distances
        return calibrate(judged, objective, distances=distances, few_features=few), held_out


@dataclass(frozen=True)
class Derived:
    """State derived from the memory: the scoring model, or what remains of it after a change.

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

    def after_change(self, labels: Iterable[Any]) -> Derived:
        """Return the state after some classes were learned, merged or forgotten."""
        changed = self.changed.union(map(as_key, labels))
        return replace(self, model=None, previous=self.model or self.previous, changed=changed)

    def restorer(self, labels: Iterable[Any]) -> Restorer:
        """Return a function that undoes an in-place change of the scoring model for these classes."""
        model = self.model or self.previous
        return Restorer([] if model is None else [model.restorer(map(as_key, labels))])

    def renamed(self, old: Any, new: Any) -> Derived:
        """Return the state after a class was renamed."""
        model, previous = (part and part.renamed(old, new) for part in (self.model, self.previous))
        changed = frozenset(new if label == old else label for label in self.changed)
        return replace(self, model=model, previous=previous, changed=changed)


class ClassMemoryMixin:
    """Methods of a recognizer with a `ClassMemory`: correct classes, add models, derive the scoring model.

    It passes calls on to `memory_`, which `fit` makes, drops what was computed from it, and computes it again
    when it is needed.
    """

    objective: Objective
    memory_: ClassMemory
    metric_: AdaptiveMetric
    unknown_label_: Any
    refresh_growth: float
    _derived: Derived
    keeps_samples = True

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
        """The samples stored for calibration."""
        check_is_fitted(self)
        return self.memory_.reservoir

    def class_mean(self, label: Any) -> NDArray[np.float64]:
        """Return the mean of the samples kept of a class, shape (D,).

        The mean of all its samples is kept in the space of the representation only.
        """
        self.statistics_.row(label)
        kept, _ = self.reservoir_.samples(np.array([label]), self.reservoir_.per_class)
        return np.asarray(kept.mean(axis=0), dtype=np.float64)

    # -- learning ---------------------------------------------------------------------------------

    def learn_unknown(self, X: ArrayLike) -> Self:
        """Take samples that are of no class into account for the threshold (known unknowns).

        They weigh as much as the classes that play unknown once there are 20 of them; at most 300 are kept,
        chosen by hash, so that their order makes no difference. No class mean changes. With `refresh_growth`
        the threshold moves at the next refresh.
        """
        check_is_fitted(self)
        samples = self._checked(X)
        check_range(samples)
        return self._learn(TrainingBatch(samples[:0], self.classes_[:0], unknowns=samples))

    def _learn(self, batch: TrainingBatch) -> Self:
        derived = self._after_change(np.unique(batch.labels))
        self.memory_.add(batch)  # all or nothing
        self._derived = derived
        return self

    def _after_change(self, labels: Iterable[Any]) -> Derived:
        """Return the derived state after a change to these classes; empty if every change refreshes."""
        return self._derived.after_change(labels) if self.refresh_growth else Derived()

    def _checked(self, X: ArrayLike) -> NDArray[Any]:
        return check_samples(self, X)

    # -- correcting -------------------------------------------------------------------------------

    def forget_class(self, label: Any) -> None:
        """Forget a class. The last one cannot be forgotten."""
        if label in self.statistics_ and len(self.statistics_) <= 1:
            raise ValueError("OpenWorldRecognizer needs at least 1 class; the last one cannot go.")
        derived = self._after_change([label])
        self.memory_.forget(label)
        self._derived = derived

    def rename_class(self, old: Any, new: Any) -> None:
        """Rename a class. No other class may have the new name."""
        self._check_new_label(new)
        self.memory_.rename(old, new)
        self._derived = self._derived.renamed(as_key(old), as_key(new))

    def merge_classes(self, labels: Iterable[Any], into: Any) -> None:
        """Merge several classes into one, whose mean is that of all their samples."""
        parts = list(dict.fromkeys(as_key(label) for label in labels))
        self._check_new_label(into)
        derived = self._after_change([*parts, into])
        self.memory_.merge(parts, into)
        self._derived = derived

    def restorer(self, labels: Iterable[Any]) -> Restorer:
        """Return a function that undoes the next change to these classes exactly, to the last bit."""
        check_is_fitted(self)
        names = list(labels)
        attributes = [partial(vars(part).update, dict(vars(part))) for part in (self, self.metric_)]
        whitening = getattr(self.metric_, "whitening_", None)
        return Restorer(
            [*attributes, self.memory_.restorer(names), self._derived.restorer(names)],
            [] if whitening is None else [whitening.map],
        )

    def _check_new_label(self, label: Any) -> None:
        check_is_fitted(self)
        check_unknown_label(self.unknown_label_, check_labels([as_key(label)]))

    # -- adding models ----------------------------------------------------------------------------

    def without_classes(self) -> Self:
        """Return a copy without classes, to learn part of the data on another machine."""
        check_is_fitted(self)
        return self._with(self.memory_.empty())

    def __add__(self, other: Self) -> Self:
        if type(self) is not type(other):
            raise ValueError("Only models of one kind can be added. Make the parts with without_classes().")
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

    # -- what predictions read, computed when it is first needed after a change --------------------

    def _current(self) -> ScoringModel:
        check_is_fitted(self)
        if not len(self.statistics_):
            raise ValueError("This recognizer knows no class: teach it some with partial_fit.")
        with lock_of(self).exclusive() if self._derived.model is None else nullcontext():
            return self._derived.model or self._derive()

    def _is_ready(self) -> bool:
        return not hasattr(self, "memory_") or self._derived.model is not None or not len(self.statistics_)

    def _make_ready(self) -> None:
        self._current()

    def _copy_refresh(self, other: Self) -> None:
        """Copy metric and calibration of a model that has learned the same, if they are newer."""
        theirs, model = other._derived, other._derived.model
        if model is None or model.index is not None or theirs.n_samples == self._derived.n_samples:
            return
        self.metric_.whitening_ = other.metric_.whitening_
        self._derived = replace(theirs, model=replace(model, vectors=model.vectors.copy()))

    def _derive(self) -> ScoringModel:
        """Compute the scoring model, and metric and calibration if enough samples were added."""
        n_samples, derived = float(self.statistics_.counts.sum()), self._derived
        calibration, previous, held_out = derived.calibration, derived.previous, None
        most, least = max(n_samples, derived.n_samples), min(n_samples, derived.n_samples)
        if calibration is None or most > (1 + self.refresh_growth) * least:
            whitening = Whitening.of(self.statistics_, self.metric_.power)
            calibration, held_out = self.memory_.calibrate(whitening, self.objective)
            self.metric_.whitening_, previous = whitening, None
        else:
            n_samples = derived.n_samples
        # The new model takes over the rows of the previous one, which cannot be used if this fails.
        self._derived = replace(derived, previous=None)
        kept = self.memory_.lengths, self.memory_.reservoir
        model = make_scoring_model(self.metric_, *kept, calibration, previous, derived.changed, held_out)
        self._derived = Derived(model, calibration, n_samples)
        return model

    def state(self) -> tuple[float, ScoringModel] | None:
        """Return what a model file keeps: how many samples the metric is from, and what predictions read.

        None where too little is known to predict, as in a part that is to be added to others.
        """
        try:
            model = self._current()
        except ValueError:
            return None
        return self._derived.n_samples, model

    def restore(
        self, metric: AdaptiveMetric, memory: ClassMemory, state: tuple[float, ScoringModel] | None
    ) -> None:
        """Set what was learned, as read from a model file."""
        self.metric_, self.memory_, self._derived = metric, memory, Derived()
        if state is not None:
            n_samples, model = state
            self._derived = Derived(model, model.calibration, n_samples)
