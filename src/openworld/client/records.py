"""Responses of the service, as typed dictionaries."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

Json = dict[str, Any]


class Near(TypedDict):
    """A class near a sample; `membership` is how likely the sample is of it, from 0 to 1."""

    label: str
    distance: float
    membership: float


class Answer(TypedDict):
    """The answer on one sample; `label` is None for unknown, and `sample_id` for what was not stored.

    `distance` is None while the model knows no class.
    """

    label: str | None
    unknown: bool
    decision: float
    membership: float
    distance: float | None
    nearest: list[Near]
    sample_id: int | None


class Recognized(TypedDict):
    """The answers on some samples, by one version of the model."""

    model_version: int
    threshold: float
    answers: list[Answer]


class Outcome(TypedDict):
    """The outcome of an event; `event_id` is None where there was nothing to do.

    `new_version` says whether the event made the version of the model.
    """

    event_id: int | None
    kind: str
    model_version: int
    samples: int
    added: list[str]
    removed: list[str]
    new_version: bool


class Page(TypedDict):
    """Samples, and the `next` to give as `after` for more."""

    samples: list[Json]
    next: str | None


class Event(TypedDict):
    """Something that happened at the service."""

    event: str
    data: Any
    id: NotRequired[str]
