"""Projections: state that is computed from events. Here: labels, descriptions and class counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from openworld.store.events import EventRecord
from openworld.store.labels import GivenState


class LabelTarget(Protocol):
    """What an event can do to labels, descriptions and counts.

    An event says once what it does, and does it to each target: the tables when it is
    appended (`LabelTable` of the store), a `LabelProjection` on replay, `ClassCounts` to compare versions.
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
