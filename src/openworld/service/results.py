"""Results and errors of the world: frozen records for the HTTP API, the page and other callers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from openworld.store.records import (
    Cluster,
    ClusterDraft,
    Item,
    Key,
    Kind,
    Near,
    PoolFilter,
    Role,
    Sample,
    State,
    Version,
)

__all__ = [
    "ClassInfo",
    "Cluster",
    "ClusterDraft",
    "Comparison",
    "Conflict",
    "Event",
    "Item",
    "Key",
    "Kind",
    "Near",
    "NotFound",
    "Notification",
    "Outcome",
    "Page",
    "PoolFilter",
    "Preview",
    "Progress",
    "Refused",
    "Rescored",
    "Role",
    "Sample",
    "State",
    "Version",
]


class Refused(ValueError):
    """The request cannot be done as it is; nothing was changed. The message says what to do."""


class NotFound(LookupError):
    """There is no such sample, cluster, class, event, version or key."""


class Conflict(RuntimeError):
    """Someone else holds the cluster, or gave the sample another label; nothing was changed."""


@dataclass(frozen=True)
class Page:
    """Some rows and, where there are more, the cursor to give as `after` for the next ones."""

    samples: list[Sample]
    next: str | None


@dataclass(frozen=True)
class Outcome:
    """The outcome of a request that appends an event.

    `event_id` is None where there was nothing left to do, as when a client repeats a request.
    `samples` counts the samples whose state changed. How many of the pool became known is computed in the
    background: see `Rescorer.wait`.
    """

    event_id: int | None
    kind: str
    model_version: int
    samples: int = 0
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rescored:
    """The pool as judged by one version: how many samples left it and how many returned."""

    model_version: int
    recognized: int
    returned: int


@dataclass(frozen=True)
class Event:
    """An event of the log. `undone_by` is the event that undoes it now, if any."""

    id: int
    at: datetime
    who: str
    kind: str
    payload: Mapping[str, Any]
    undoes: int | None
    undone_by: int | None
    model_version: int


@dataclass(frozen=True)
class Comparison:
    """How version `b` differs from version `a`: classes, and how many samples each was learned from."""

    a: int
    b: int
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: Mapping[str, tuple[float, float]]
    same: bool


@dataclass(frozen=True)
class ClassInfo:
    """A class the model knows. `count` is the number of samples it was learned from."""

    label: str
    count: float
    description: str | None
    nearest: Near | None = None
    examples: tuple[int, ...] = ()


@dataclass(frozen=True)
class Preview:
    """What labeling some samples would change.

    `nearest` are the classes nearest to the mean of the samples, with distances; `similar_names` are existing
    labels that look like the new one; `already` maps samples to the labels they have.
    """

    label: str
    new_class: bool
    samples: int
    nearest: tuple[Near, ...]
    similar_names: tuple[str, ...]
    already: Mapping[int, str]
    problem: str | None = None


@dataclass(frozen=True)
class Progress:
    """How many samples are in each state; `mine` those the person asked about labeled or dismissed."""

    pending: int
    recognized: int
    labeled: int
    dismissed: int
    my_labeled: int
    my_dismissed: int


@dataclass(frozen=True)
class Notification:
    """Something that happened.

    Kinds: `act` (an event was appended; with kind, who, version), `rescored`, `clusters`, `lease`, `unknown`
    (new samples in the pool). `here` is whether this server did it, and not another on the same database.
    """

    id: int
    kind: str
    data: Mapping[str, Any] = field(default_factory=dict)
    here: bool = True
