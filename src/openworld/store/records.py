"""Records of the store: plain frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

Kind = Literal["vector", "image", "text"]
SampleState = Literal["pending", "recognized", "labeled", "dismissed"]
Role = Literal["viewer", "labeler", "admin"]
Kept = Literal["uncertain", "random"]


@dataclass(frozen=True)
class SampleContent:
    """A sample's kind, text, source and pictures, beside its feature.

    `thumbnail` is a small encoded picture, `preview` a larger one; `source` says where the sample is from, as
    the client gave it.
    """

    kind: Kind = "vector"
    text: str | None = None
    source: str | None = None
    thumbnail: bytes | None = None
    preview: bytes | None = None


@dataclass(frozen=True)
class ClassDistance:
    """A class near a sample: its distance in the model's metric, and the sample's membership.

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
    them. `seen` counts how often the same content was sent to be recognized: 0 for what was only learned.
    `who` and `labeled_at` are those of the event that labeled or dismissed it, or returned it to the pool.
    `kept` is why a recognized sample was stored: the model was uncertain, or it belongs to the random share.
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
    nearest: tuple[ClassDistance, ...]
    state: SampleState
    label: str | None
    who: str | None
    labeled_at: datetime | None
    cluster_id: int | None
    has_thumbnail: bool
    kept: Kept | None


@dataclass(frozen=True)
class PoolFilter:
    """Which samples to list; a field that is None does not filter.

    `nearest` is the label of the nearest class, `text` a part of text or source, whatever the case.
    `answer` is the class that the model named. With `cluster`, members come in the order of the cluster,
    outliers last; with `least_certain_first`, by membership; otherwise by id.
    """

    state: SampleState | None = "pending"
    cluster: int | None = None
    clustered: bool | None = None
    nearest: str | None = None
    label: str | None = None
    source: str | None = None
    text: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    newest_first: bool = False
    answer: str | None = None
    kept: Kept | None = None
    least_certain_first: bool = False


@dataclass(frozen=True)
class PoolCluster:
    """A cluster of unknown samples. `pinned`: merged or split by a person, so clustering leaves it alone.

    `purity` is the estimated share of its commonest class, `novelty` how different it is from the known
    classes, from 0; both None for a cluster that a person made. `loose`: it probably holds several classes.
    """

    id: int
    medoid: int
    size: int
    pinned: bool
    holder: str | None
    held_until: datetime | None
    purity: float | None = None
    novelty: float | None = None
    loose: bool = False


@dataclass(frozen=True)
class ClusterDraft:
    """A cluster found by the clustering job: members in the order to show; `id` None for a new one."""

    members: Sequence[int]
    medoid: int
    id: int | None = None
    purity: float | None = None
    novelty: float | None = None
    loose: bool = False


@dataclass(frozen=True)
class Version:
    """A version of the model and what changed in it. The newest is the one in use.

    `summary` has the keys added, removed (labels), samples, classes (how many), threshold, and, once the pool
    was rescored, recognized and returned.
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
