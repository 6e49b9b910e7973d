"""Corrections: which samples people moved from one class to another, or back to the unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from openworld.service.event_log import EventLog
from openworld.service.events import FeedbackEvent, RedoEvent, UndoEvent
from openworld.store import events
from openworld.store.events import EventRecord

NEWEST = 2000  # events that are searched: reading more would take memory and time for every sample in them


@dataclass(frozen=True)
class Correction:
    """Samples that a person moved to another class, or back to the unknown (`after` is None).

    `before` is what the model answered, or what a person said earlier.
    """

    samples: tuple[int, ...]
    before: str
    after: str | None
    who: str
    at: datetime


def corrections_of(log: EventLog, label: str) -> list[Correction]:
    """Return the corrections that moved samples into a class or out of it, the newest first.

    Only the newest `NEWEST` events of the log are searched.
    """
    with log.database.read() as connection:
        records = events.newest(connection, None, NEWEST, None)
    history = _LabelHistory()
    for record in reversed(records):
        event = log.event(record)
        if isinstance(event, FeedbackEvent):
            history.answered(dict(zip(event.samples, event.answers, strict=True)))
        if record.kind in (UndoEvent.kind, RedoEvent.kind):
            history.rewind(record)
        else:
            event.apply_to_labels(history, record)
    return [one for one in history.corrections() if label in (one.before, one.after)]


@dataclass
class _Step:
    """The label that a sample got, None for unknown; `by` is None for what the model answered."""

    label: str | None
    by: EventRecord | None


@dataclass
class _LabelHistory:
    """The labels that samples had one after the other: a `LabelTarget` that forgets nothing."""

    steps: dict[int, list[_Step]] = field(default_factory=dict)
    given: dict[int, Mapping[int, str]] = field(default_factory=dict)  # by the id of the event
    undone: dict[int, int] = field(default_factory=dict)  # undo -> event

    def answered(self, answers: Mapping[int, str]) -> None:
        """Note what the model called samples before a person reviewed them."""
        for sample, answer in answers.items():
            self.steps.setdefault(sample, [_Step(answer, None)])

    def label(self, labels: Mapping[int, str], by: EventRecord) -> None:
        """Note labels."""
        self.given[by.id] = labels
        for sample, label in labels.items():
            self._note(sample, label, by)

    def return_to_pool(self, sample_ids: Sequence[int], by: EventRecord) -> None:
        """Note samples that are unknown."""
        for sample in sample_ids:
            self._note(sample, None, by)

    def dismiss(self, sample_ids: Sequence[int], by: EventRecord) -> None:
        """Note nothing: dismissed samples had no label."""

    def move(self, labels: Sequence[str], into: str) -> None:
        """Call classes by the name that they have now."""
        for step in (step for steps in self.steps.values() for step in steps if step.label in labels):
            step.label = into

    def forget(self, label: str) -> None:
        """Note nothing: the class was forgotten, its samples were not corrected."""

    def describe(self, label: str, text: str) -> None:
        """Note nothing."""

    def rewind(self, by: EventRecord) -> None:
        """Note the labels that an undo took back, or that a redo restored."""
        event = by.undoes or 0
        if event in self.undone:
            self.label(self.given.get(self.undone[event], {}), by)
        else:
            self.undone[by.id] = event
            self.return_to_pool(list(self.given.get(event, ())), by)

    def _note(self, sample: int, label: str | None, by: EventRecord) -> None:
        """Add a step. An undo and a new label by one person are one step; none if the label is the same."""
        steps = self.steps.setdefault(sample, [])
        if label is not None and steps and steps[-1].label is None and _is_by(steps[-1], by.who):
            steps.pop()
        if not steps or steps[-1].label != label:
            steps.append(_Step(label, by))

    def corrections(self) -> Iterable[Correction]:
        """Return the changes of class, those of one event together, the newest event first."""
        found: dict[tuple[int, str, str | None], list[int]] = {}
        records: dict[int, EventRecord] = {}
        for sample, steps in self.steps.items():
            for before, after in pairwise(steps):
                if before.label is not None and after.by is not None:
                    found.setdefault((after.by.id, before.label, after.label), []).append(sample)
                    records[after.by.id] = after.by
        for (event, old, new), samples in sorted(found.items(), key=lambda one: -one[0][0]):
            yield Correction(tuple(samples), old, new, records[event].who, records[event].at)


def _is_by(step: _Step, who: str) -> bool:
    return step.by is not None and step.by.who == who
