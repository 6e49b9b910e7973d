"""Records of the store: plain frozen dataclasses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

Kind = Literal["vector", "image", "text"]
SampleState = Literal["pending", "recognized", "labeled", "dismissed"]
Role = Literal["viewer", "labeler", "admin"]
Kept = Literal["uncertain", "random", "drawn"]
RANDOM: tuple[Kept, ...] = ("random", "drawn")  # the random share


@dataclass(frozen=True)
class SampleContent:
    """The content of a sample besides its features: kind, text, source, pictures and group.

    `thumbnail` is a small encoded picture, `preview` a larger one. `source` is where the sample comes from,
    as given by the client. Samples of one `group` are near copies of each other; None is a group of its own.
    """

    kind: Kind = "vector"
    text: str | None = None
    source: str | None = None
    thumbnail: bytes | None = None
    preview: bytes | None = None
    group: str | None = None


@dataclass(frozen=True)
class ClassDistance:
    """A class near a sample: its distance in the model's metric, and the sample's membership.

    `membership` is between 0 and 1 and not normalized over classes. It is None for the distance of two
    classes, and for samples that were stored before memberships were.
    """

    label: str
    distance: float
    membership: float | None = None


@dataclass(frozen=True)
class Sample:
    """A stored sample, without its features and pictures.

    `decision`, `membership`, `answer` and `nearest` come from `model_version`, the version that last changed
    them. `seen` counts how often the same content was sent to be recognized; it is 0 for samples that were
    only learned.
    `who` and `labeled_at` are those of the event that labeled or dismissed it, or returned it to the pool.
    `kept` is why a recognized sample is reviewed: it was stored because the model was uncertain, or for the
    random share; or it was drawn for the random share when it came as unknown (`drawn`).
    `group` is that of its near copies; None for a group of its own.
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
    group: str | None


@dataclass(frozen=True)
class PoolFilter:
    """Which samples to list; a field that is None does not filter.

    `nearest` is the label of the nearest class, `text` a part of text or source, whatever the case.
    `answer` is the class that the model named, `random` asks for the random share. With `cluster`, members
    come in the order of the cluster, outliers last; with `least_certain_first`, by membership; otherwise by
    id.
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
    random: bool = False
    least_certain_first: bool = False


@dataclass(frozen=True)
class PoolCluster:
    """A cluster of unknown samples.

    `pinned`: a person merged or split it, so the clustering job does not change it. `purity` is the estimated
    share of its most common class, `novelty` how different it is from the known classes, 0 or more. Both are
    None for a cluster that a person made. `loose`: it probably contains several classes.
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
    """A cluster found by the clustering job: its members in viewing order, and its id, None if it is new."""

    members: Sequence[int]
    medoid: int
    id: int | None = None
    purity: float | None = None
    novelty: float | None = None
    loose: bool = False


@dataclass(frozen=True)
class Version:
    """A version of the model and what changed in it. The newest version is the current one.

    `summary` has the keys added and removed (labels), samples and classes (counts), threshold and, once the
    pool was rescored, recognized and returned (counts).
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
