"""Results and errors of the world: frozen records for the HTTP API, the page and other callers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    "Answer",
    "Answers",
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
class Answer:
    """The answer on one sample.

    `decision` above 0 means known. `membership` is from 0 to 1. `label` is None for unknown.
    """

    label: str | None
    decision: float
    membership: float
    nearest: tuple[Near, ...]
    sample_id: int | None
    model_version: int

    @property
    def known(self) -> bool:
        """Whether the sample was named."""
        return self.label is not None


@dataclass(frozen=True)
class Answers:
    """The answers on n samples as columns, all by one version of the model.

    `labels` hold None for unknown and `sample_ids` None for what was not stored. `nearest_labels`,
    `nearest_distances` and `nearest_memberships` have shape (n, k). `threshold` is the model's: tau, or the
    score of acceptance.
    """

    labels: Sequence[str | None]
    decision: NDArray[np.float64]
    membership: NDArray[np.float64]
    nearest_labels: NDArray[Any]
    nearest_distances: NDArray[np.float64]
    nearest_memberships: NDArray[np.float64]
    sample_ids: Sequence[int | None]
    threshold: float
    model_version: int

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self) -> list[Answer]:
        """Return the answers one by one."""
        near = (self.nearest_labels, self.nearest_distances, self.nearest_memberships)
        nearest = [tuple(map(Near, *row)) for row in zip(*(column.tolist() for column in near), strict=True)]
        columns = (self.labels, self.decision.tolist(), self.membership.tolist(), nearest, self.sample_ids)
        return [Answer(*row, self.model_version) for row in zip(*columns, strict=True)]


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
    """What labelling some samples would change.

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
    """How many samples are in each state; `mine` those the person asked about labelled or dismissed."""

    pending: int
    recognized: int
    labelled: int
    dismissed: int
    my_labelled: int
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
