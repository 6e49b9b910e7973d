"""The base class of events, and the label targets that they are applied to.

An event changes a model, labels and clusters. Labels have several forms, each a `LabelTarget`: the tables of
the store, and the projections here, which are computed from events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import partial
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from sqlalchemy import Connection

from openworld.distributed import takes_groups
from openworld.service.live_model import Model, ModelChange
from openworld.store.events import EventRecord
from openworld.store.labels import GivenState
from openworld.store.samples import Features


@dataclass(frozen=True)
class EventOutcome:
    """The outcome of a request that appends an event.

    `event_id` is None where there was nothing left to do, as when a client repeats a request.
    `samples` counts the samples whose state changed. `new_version` says whether the event made the version,
    by which the pool is then judged in the background: see `Rescorer.wait`.
    """

    event_id: int | None
    kind: str
    model_version: int
    samples: int = 0
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    new_version: bool = False


@dataclass(frozen=True)
class WorldEvent:
    """An event before it is stored; the base of all kinds. By default it has no effect on anything.

    Attributes
    ----------
    kind : str
        The name under which it is stored.
    changes_model : bool
        Whether it makes a new version, by `apply_to_model`.
    rewinds : bool
        Whether it changes which other events are in effect: undo, redo, rollback. The event log then replays.
    undoable : bool
    erases : bool
        Whether it deletes its samples, from earlier events too.
    learns : bool
        Whether `apply_to_model` takes the features of its samples.
    class_fields : tuple of str
        The fields that name the classes which `apply_to_model` touches.
    words : str
        What the person did, to follow their name: a format string of the payload and `n`, as in “3 samples”.
    """

    kinds: ClassVar[dict[str, type[WorldEvent]]] = {}  # all of them, by name
    kind: ClassVar[str]
    words: ClassVar[str]
    erases: ClassVar[bool] = False
    learns: ClassVar[bool] = False
    class_fields: ClassVar[tuple[str, ...]] = ()
    changes_model: ClassVar[bool] = False
    rewinds: ClassVar[bool] = False
    undoable: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        WorldEvent.kinds[cls.kind] = cls

    @property
    def payload(self) -> dict[str, Any]:
        """The fields, as they are stored: optional ones only if they have a value."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: value for name, (value, default) in values.items() if value or default is MISSING}

    @property
    def n_samples(self) -> int:
        """The number of samples whose state or cluster changes."""
        return len(self._samples)

    @property
    def _samples(self) -> Sequence[int]:
        samples: Sequence[int] = getattr(self, "samples", ())
        return samples

    @property
    def learned(self) -> Sequence[int]:
        """The samples whose features `apply_to_model` takes."""
        return self._samples if self.learns else ()

    @property
    def classes(self) -> frozenset[str]:
        """The classes that `apply_to_model` adds, changes, renames or removes."""
        values = [getattr(self, name) for name in self.class_fields]
        labels = [label for value in values for label in ([value] if isinstance(value, str) else value)]
        return frozenset(label for label in labels if label is not None)

    @property
    def erased(self) -> frozenset[int]:
        """The samples that it deletes from the store and from the model."""
        return frozenset(self._samples if self.erases else ())

    @property
    def target(self) -> int:
        """For a rollback, the event that made the version returned to, 0 for the first model."""
        return int(getattr(self, "event", 0))

    def apply_to_model(self, model: Model, features: Features) -> None:
        """Change a model; may raise ValueError, TypeError or LookupError where the model refuses."""

    def change_of(self, features: Features) -> ModelChange:
        """Return what the event does to a model, given the features of the samples learned."""
        return ModelChange(partial(self.apply_to_model, features=features), self.classes)

    def apply_to_labels(self, labels: LabelTarget, by: EventRecord) -> None:
        """Change labels, descriptions and counts; `by` is this event as stored."""

    def apply_to_clusters(self, connection: Connection) -> None:
        """Change the stored clusters; also when the event is redone."""

    def revert_clusters(self, connection: Connection) -> None:
        """Take back `apply_to_clusters` when the event is undone."""

    def rewind_clusters(self, connection: Connection, event: WorldEvent) -> None:
        """Change the stored clusters; `event` is the event that this one undoes or redoes."""

    def without(self, erased: Set[int]) -> Self:
        """Return the event as if it had never had some samples, each a row of its sequences."""
        if self.erases or erased.isdisjoint(self._samples):
            return self
        kept = [i for i, sample in enumerate(self._samples) if sample not in erased]
        rows = {name: value for name, value in self.payload.items() if isinstance(value, list | tuple)}
        return replace(self, **{name: [value[i] for i in kept] for name, value in rows.items()})

    def describe(self) -> str:
        """Say what the person did, in words that follow their name."""
        return self.words.format(**self.payload, n=self._n)

    @property
    def _n(self) -> str:
        return f"{self.n_samples} sample{'s' * (self.n_samples != 1)}"


# -- groups ----------------------------------------------------------------------------------------


def groups_of(groups: Iterable[str | None]) -> list[str]:
    """Return groups as events have them: "" for a group of its own; none where no sample has one."""
    names = [group or "" for group in groups]
    return names if any(names) else []


def learn(model: Model, features: Features, labels: Sequence[str], groups: Sequence[str]) -> None:
    """Learn labeled samples, with their groups if they have some and the model takes them."""
    together = {"groups": list(groups)} if groups and takes_groups(model) else {}
    model.partial_fit(features, np.array(labels), **together)


# -- what an event does to labels ------------------------------------------------------------------


class LabelTarget(Protocol):
    """What an event can do to labels, descriptions and counts.

    An event says once what it does, and does it to each target: the tables when it is appended (`LabelTable`
    of the store), a `LabelProjection` on replay, `ClassCounts` to compare versions.
    """

    def label(self, labels: Mapping[int, str], by: EventRecord) -> None:
        """Give samples labels."""

    def dismiss(self, sample_ids: Sequence[int], by: EventRecord) -> None:
        """Take samples out of the pool."""

    def return_to_pool(self, sample_ids: Sequence[int], by: EventRecord) -> None:
        """Return samples to the pool that were recognized wrongly."""

    def move(self, labels: Sequence[str], into: str) -> None:
        """Give the samples and the description of some classes to another class."""

    def forget(self, label: str) -> None:
        """Return the samples of a class to the pool."""

    def describe(self, label: str, text: str) -> None:
        """Set the description of a class."""


@dataclass
class LabelProjection:
    """Labels and descriptions in memory.

    Attributes
    ----------
    states : dict
        Sample id -> the state that an event gave it. Other samples are as they were stored.
    descriptions : dict
        Class label -> description.
    """

    states: dict[int, GivenState] = field(default_factory=dict)
    descriptions: dict[str, str] = field(default_factory=dict)
    _members: dict[str, set[int]] = field(default_factory=dict)

    def label(self, labels: Mapping[int, str], by: EventRecord) -> None:
        """Give samples labels."""
        for sample, label in labels.items():
            self._unlabel(sample)
            self.states[sample] = GivenState.labeled(label, by)
            self._members.setdefault(label, set()).add(sample)

    def dismiss(self, sample_ids: Sequence[int], by: EventRecord) -> None:
        """Take samples out of the pool."""
        for sample in sample_ids:
            self._unlabel(sample)
            self.states[sample] = GivenState.dismissed(by)

    def return_to_pool(self, sample_ids: Sequence[int], by: EventRecord) -> None:
        """Return samples to the pool that were recognized wrongly."""
        for sample in sample_ids:
            self._unlabel(sample)
            self.states[sample] = GivenState.returned(by)

    def move(self, labels: Sequence[str], into: str) -> None:
        """Give the samples and the description of some classes to another class."""
        for label in dict.fromkeys(labels):
            if label == into:
                continue
            text = self.descriptions.pop(label, None)
            if text is not None:
                self.descriptions.setdefault(into, text)
            for sample in self._members.pop(label, set()):
                self.states[sample] = replace(self.states[sample], label=into)
                self._members.setdefault(into, set()).add(sample)

    def forget(self, label: str) -> None:
        """Return the samples of a class to the pool."""
        for sample in self._members.pop(label, set()):
            del self.states[sample]
        self.descriptions.pop(label, None)

    def describe(self, label: str, text: str) -> None:
        """Set the description of a class."""
        self.descriptions[label] = text

    def _unlabel(self, sample: int) -> None:
        before = self.states.get(sample)
        if before is not None and before.label is not None:
            self._members[before.label].discard(sample)


@dataclass
class TouchedLabels:
    """The samples and classes that events touch: a label target that only takes note of them."""

    samples: set[int] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)

    def label(self, labels: Mapping[int, str], by: EventRecord) -> None:
        """Note the samples."""
        self.samples.update(labels)

    def dismiss(self, sample_ids: Sequence[int], by: EventRecord) -> None:
        """Note the samples."""
        self.samples.update(sample_ids)

    def return_to_pool(self, sample_ids: Sequence[int], by: EventRecord) -> None:
        """Note the samples."""
        self.samples.update(sample_ids)

    def move(self, labels: Sequence[str], into: str) -> None:
        """Note the classes."""
        self.classes.update(labels, [into])

    def forget(self, label: str) -> None:
        """Note the class."""
        self.classes.add(label)

    def describe(self, label: str, text: str) -> None:
        """Note the class."""
        self.classes.add(label)


class ClassCounts(dict[str, float]):
    """How many samples each class was learned from; begins with the counts of the first model."""

    def label(self, labels: Mapping[int, str], by: EventRecord) -> None:
        """Count the samples."""
        for label in labels.values():
            self[label] = self.get(label, 0) + 1

    def dismiss(self, sample_ids: Sequence[int], by: EventRecord) -> None:
        """Change nothing: dismissed samples were never learned."""

    def return_to_pool(self, sample_ids: Sequence[int], by: EventRecord) -> None:
        """Change nothing: recognized samples were never learned."""

    def move(self, labels: Sequence[str], into: str) -> None:
        """Add the counts of some classes to another class."""
        self[into] = sum(self.pop(label, 0) for label in dict.fromkeys([*labels, into]))

    def forget(self, label: str) -> None:
        """Drop a class."""
        self.pop(label)

    def describe(self, label: str, text: str) -> None:
        """Change nothing."""
