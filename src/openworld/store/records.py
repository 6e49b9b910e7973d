"""What the store keeps, as plain frozen records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

Kind = Literal["vector", "image", "text"]
State = Literal["pending", "recognized", "labelled", "dismissed"]
Role = Literal["viewer", "labeller", "admin"]


@dataclass(frozen=True)
class Item:
    """What is known about one sample beside its feature.

    `thumbnail` is a small encoded picture; `source` says where the sample is from, in the client's words.
    """

    kind: Kind = "vector"
    text: str | None = None
    source: str | None = None
    thumbnail: bytes | None = None


@dataclass(frozen=True)
class Near:
    """A class, its distance to a sample in the model's metric, and how likely the sample is of it.

    `membership` is from 0 to 1, not normalized over classes; None between two classes, and for a sample
    that was stored without it.
    """

    label: str
    distance: float
    membership: float | None = None


@dataclass(frozen=True)
class Sample:
    """A stored sample, without feature and thumbnail bytes.

    `decision`, `membership`, `answer` and `nearest` are by `model_version`, the version that last changed
    them. `seen` counts how often the same content came to be recognized: 0 for what was only learnt.
    `who` and `labelled_at` tell of the act that labelled or dismissed it.
    """

    id: int
    kind: Kind
    text: str | None
    source: str | None
    created_at: datetime
    seen: int
    model_version: int
    answer: str | None
    decision: float
    membership: float
    nearest: tuple[Near, ...]
    state: State
    label: str | None
    who: str | None
    labelled_at: datetime | None
    cluster_id: int | None
    has_thumbnail: bool


@dataclass(frozen=True)
class PoolFilter:
    """Which samples to list; what is None does not filter.

    `nearest` is the label of the nearest class, `text` a part of text or source, whatever the case.
    `cluster` lists members in the order of the cluster, doubtful ones last; `order` is otherwise by id.
    """

    state: State | None = "pending"
    cluster: int | None = None
    clustered: bool | None = None
    nearest: str | None = None
    label: str | None = None
    source: str | None = None
    text: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    newest_first: bool = False


@dataclass(frozen=True)
class Cluster:
    """A group of unknown samples. `pinned`: merged or split by a person, left alone by the clustering."""

    id: int
    medoid: int
    size: int
    pinned: bool
    holder: str | None
    held_until: datetime | None


@dataclass(frozen=True)
class ClusterDraft:
    """A cluster as the clustering job found it: members from sure to doubtful; `id` None for a new one."""

    members: Sequence[int]
    medoid: int
    id: int | None = None


@dataclass(frozen=True)
class Version:
    """A version of the model and what changed in it. The newest is the one in force.

    `summary` has the keys added, removed (labels), samples, classes (how many), threshold, and, once the pool
    was scored again, recognized and returned.
    """

    id: int
    event_id: int | None
    history: str
    created_at: datetime
    summary: Mapping[str, Any]


@dataclass(frozen=True)
class Key:
    """An API key; the secret itself is shown once and never stored."""

    name: str
    role: Role
    created_at: datetime
    revoked_at: datetime | None
