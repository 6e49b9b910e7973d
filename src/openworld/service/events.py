"""The events of the service: one class per kind.

An event is something that a person did. It is appended to the event log and never changed; model, labels and
versions are computed from the events in effect. Each class says in one place its payload (the fields, stored
as JSON), what it does to a model, to labels and to clusters, whether it can be undone, and how the history
words it; see `WorldEvent`. A new kind is a new class here, and a route that appends it. Databases hold kinds
and payloads, so neither may be renamed without a migration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from openworld.recognition import is_adjustable, parse_objective
from openworld.service.live_model import Model
from openworld.service.world_event import LabelTarget, WorldEvent, learn
from openworld.store import clusters
from openworld.store.events import EventRecord
from openworld.store.samples import Features

# -- labels ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LearnEvent(WorldEvent):
    """New samples were stored with their labels, and learned."""

    kind = "learn"
    changes_model = True
    learns = True
    class_fields = ("labels",)

    samples: Sequence[int]
    labels: Sequence[str]
    groups: Sequence[str] = ()

    def apply_to_model(self, model: Model, features: Features) -> None:
        """Learn the samples."""
        learn(model, features, self.labels, self.groups)

    def apply_to_labels(self, labels: LabelTarget, by: EventRecord) -> None:
        """Label the samples."""
        labels.label(dict(zip(self.samples, self.labels, strict=True)), by)

    def describe(self) -> str:
        """Name the classes."""
        return f"taught {self._n} of {_quoted(sorted(self.labels))}"


@dataclass(frozen=True)
class LabelEvent(WorldEvent):
    """Stored samples got a label, and were learned."""

    kind = "label"
    words = "labeled {n} as “{label}”"
    changes_model = True
    learns = True
    class_fields = ("label",)

    samples: Sequence[int]
    label: str
    groups: Sequence[str] = ()

    def apply_to_model(self, model: Model, features: Features) -> None:
        """Learn the samples."""
        learn(model, features, [self.label] * len(features), self.groups)

    def apply_to_labels(self, labels: LabelTarget, by: EventRecord) -> None:
        """Label the samples."""
        labels.label(dict.fromkeys(self.samples, self.label), by)


@dataclass(frozen=True)
class AcceptEvent(LabelEvent):
    """A rejected sample is of a known class: it is learned, and the threshold takes it into account."""

    kind = "accept"
    words = "labeled {n} as “{label}”, wrongly rejected"

    def apply_to_model(self, model: Model, features: Features) -> None:
        """Learn the sample, and relax the threshold if it is still rejected."""
        super().apply_to_model(model, features)
        model.relax_threshold(features, [self.label] * len(features))


@dataclass(frozen=True)
class DismissEvent(WorldEvent):
    """Samples were taken out of the pool: bad input, or not a class."""

    kind = "dismiss"

    samples: Sequence[int]
    reason: str

    def apply_to_labels(self, labels: LabelTarget, by: EventRecord) -> None:
        """Dismiss the samples."""
        labels.dismiss(self.samples, by)

    def describe(self) -> str:
        """Give the reason."""
        return f"dismissed {self._n}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True)
class DismissUnknownEvent(DismissEvent):
    """Samples were taken out of the pool, and the threshold takes them into account as known unknowns.

    It is a separate kind, because the events "dismiss" of stored logs never changed a model.
    """

    kind = "dismiss_unknown"
    changes_model = True
    learns = True

    def apply_to_model(self, model: Model, features: Features) -> None:
        """Learn that the samples are of no class."""
        if not is_adjustable(model):
            raise TypeError(f"A {type(model).__name__} does not learn known unknowns.")
        model.learn_unknown(features)


@dataclass(frozen=True)
class FeedbackEvent(WorldEvent):
    """Recognized samples were reviewed: what the model answered, and what is true.

    A label of None means that the sample is of no known class: it returns to the pool and stays there until
    a person names it. `random` marks the samples kept at random: only these give an unbiased estimate.
    """

    kind = "feedback"
    changes_model = True
    class_fields = ("labels",)

    samples: Sequence[int]
    labels: Sequence[str | None]
    answers: Sequence[str]
    random: Sequence[bool]
    groups: Sequence[str] = ()

    @property
    def learned(self) -> Sequence[int]:
        """The samples that have a class."""
        return list(self._labels)

    @property
    def _labels(self) -> dict[int, str]:
        pairs = zip(self.samples, self.labels, strict=True)
        return {sample: label for sample, label in pairs if label is not None}

    def apply_to_model(self, model: Model, features: Features) -> None:
        """Learn the samples that have a class."""
        if len(features):
            named = self.without(set(self.samples) - self._labels.keys())
            learn(model, features, list(self._labels.values()), named.groups)

    def apply_to_labels(self, labels: LabelTarget, by: EventRecord) -> None:
        """Label the samples that have a class, return the others to the pool."""
        labels.label(self._labels, by)
        labels.return_to_pool([i for i in self.samples if i not in self._labels], by)

    def describe(self) -> str:
        """Name the classes, count right and wrong answers, and say what the wrong ones are."""
        wrong = [label for label, answer in zip(self.labels, self.answers, strict=True) if label != answer]
        counts = f"{self.n_samples - len(wrong)} right, {len(wrong)} wrong"
        truth = f" ({_quoted(wrong)})" if wrong else ""
        return f"reviewed {self._n} recognized as {_quoted(self.answers)}: {counts}{truth}"


# -- classes --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DescribeEvent(WorldEvent):
    """A class got a description."""

    kind = "describe"
    words = "described “{label}”"

    label: str
    text: str

    def apply_to_labels(self, labels: LabelTarget, by: EventRecord) -> None:
        """Set the description."""
        labels.describe(self.label, self.text)


@dataclass(frozen=True)
class RenameEvent(WorldEvent):
    """A class got another name."""

    kind = "rename"
    words = "renamed “{old}” to “{new}”"
    changes_model = True
    class_fields = ("old", "new")

    old: str
    new: str

    def apply_to_model(self, model: Model, features: Features) -> None:
        """Rename the class. A refreshed model keeps what it has computed, so it is refreshed before."""
        model.refresh()
        model.rename_class(self.old, self.new)

    def apply_to_labels(self, labels: LabelTarget, by: EventRecord) -> None:
        """Rename the labels of its samples."""
        labels.move([self.old], self.new)


@dataclass(frozen=True)
class MergeEvent(WorldEvent):
    """Several classes became one."""

    kind = "merge"
    changes_model = True
    class_fields = ("labels", "into")

    labels: Sequence[str]
    into: str

    def apply_to_model(self, model: Model, features: Features) -> None:
        """Merge the classes."""
        model.merge_classes(self.labels, self.into)

    def apply_to_labels(self, labels: LabelTarget, by: EventRecord) -> None:
        """Rename the labels of their samples."""
        labels.move(self.labels, self.into)

    def describe(self) -> str:
        """Name the classes."""
        return f"merged {_quoted(self.labels)} into {_quoted([self.into])}"


@dataclass(frozen=True)
class ForgetEvent(WorldEvent):
    """A class was forgotten; its stored samples returned to the pool."""

    kind = "forget"
    words = "forgot “{label}”"
    changes_model = True
    class_fields = ("label",)

    label: str

    def apply_to_model(self, model: Model, features: Features) -> None:
        """Forget the class."""
        model.forget_class(self.label)

    def apply_to_labels(self, labels: LabelTarget, by: EventRecord) -> None:
        """Return its samples to the pool."""
        labels.forget(self.label)


@dataclass(frozen=True)
class ObjectiveEvent(WorldEvent):
    """The operating point was moved: the objective that the threshold is to reach, see `parse_objective`."""

    kind = "objective"
    words = "moved the operating point to {objective}"
    changes_model = True

    objective: str

    def apply_to_model(self, model: Model, features: Features) -> None:
        """Find the threshold that the objective asks for."""
        if not is_adjustable(model):
            raise TypeError(f"A {type(model).__name__} has no operating point to move.")
        model.set_objective(parse_objective(self.objective))


# -- clusters -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MergeClustersEvent(WorldEvent):
    """The samples of clusters moved into one of them.

    `moved` maps the id of each cluster that was emptied, as text, to its samples.
    """

    kind = "merge_clusters"

    into: int
    moved: Mapping[str, Sequence[int]]

    @property
    def n_samples(self) -> int:
        """The samples moved."""
        return sum(map(len, self.moved.values()))

    def apply_to_clusters(self, connection: Connection) -> None:
        """Move the samples."""
        clusters.move(connection, [i for ids in self.moved.values() for i in ids], self.into)

    def revert_clusters(self, connection: Connection) -> None:
        """Move the samples back."""
        clusters.move_back(connection, self.moved, self.into)

    def describe(self) -> str:
        """Name the cluster that took the samples."""
        return f"merged {len(self.moved) + 1} clusters into cluster {self.into}"


@dataclass(frozen=True)
class SplitClusterEvent(MergeClustersEvent):
    """Some samples of a cluster moved into a new cluster."""

    kind = "split_cluster"

    def describe(self) -> str:
        """Name both clusters."""
        return f"split cluster {next(iter(self.moved))}: a new cluster {self.into}"


# -- erasure --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EraseEvent(WorldEvent):
    """Samples were erased, with all that was derived from them. Nothing brings them back.

    Every replay leaves them out, also from events before this one (`without`).
    """

    kind = "erase"
    words = "erased {n}"
    undoable = False
    erases = True

    samples: Sequence[int]


# -- events on events -----------------------------------------------------------------------------


@dataclass(frozen=True)
class UndoEvent(WorldEvent):
    """Another event was undone; the record's `undoes` is its id, `of` its kind."""

    kind = "undo"
    words = "undid"
    rewinds = True
    undoable = False

    of: str

    def rewind_clusters(self, connection: Connection, event: WorldEvent) -> None:
        """Undo what the event did."""
        event.revert_clusters(connection)


@dataclass(frozen=True)
class RedoEvent(WorldEvent):
    """An undo was taken back; the record's `undoes` is the undo, `of` the kind of the event it undid."""

    kind = "redo"
    words = "redid"
    rewinds = True
    undoable = False

    of: str

    def rewind_clusters(self, connection: Connection, event: WorldEvent) -> None:
        """Repeat what the event did."""
        event.apply_to_clusters(connection)


@dataclass(frozen=True)
class RollbackEvent(WorldEvent):
    """The model returned to an earlier version; `event` is the event that made it, 0 for the first model."""

    kind = "activate"
    words = "rolled back to version {version}"
    rewinds = True

    version: int
    event: int


EVENT_KINDS = WorldEvent.kinds
UNDOABLE_KINDS = frozenset(kind for kind, event in EVENT_KINDS.items() if event.undoable)


def event_of(kind: str, payload: Mapping[str, Any]) -> WorldEvent:
    """Return the event of a stored kind and payload."""
    if kind not in EVENT_KINDS:
        raise ValueError(
            f"This database has an event of kind {kind!r}, from a newer version of openworld: upgrade."
        )
    return EVENT_KINDS[kind](**payload)


def _quoted(labels: Iterable[str | None]) -> str:
    names = ["unknown" if label is None else f"“{label}”" for label in dict.fromkeys(labels)]
    return ", ".join(names[:5]) + ", …" * (len(names) > 5)
