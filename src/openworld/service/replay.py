"""Replay: what stored events do to a model, without the samples that were erased since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from openworld.service.events import EraseEvent, event_of
from openworld.service.live_model import Model, ModelChange
from openworld.service.undo import EventHeader
from openworld.service.validation import Refused
from openworld.store import events
from openworld.store.events import EventRecord
from openworld.store.samples import features_of


def model_change(connection: Connection, record: EventRecord, erased: frozenset[int]) -> ModelChange:
    """Return what a stored event does to a model; where it is refused, an event before it was undone."""
    whole = event_of(record.kind, record.payload)
    event = whole.without(erased)
    if whole.learned and not event.learned:
        return ModelChange(lambda model: None, frozenset())
    change = event.change_of(features_of(connection, event.learned))

    def apply(model: Model) -> None:
        try:
            change.apply(model)
        except (ValueError, TypeError, LookupError) as error:
            raise Refused(
                f"Event {record.id} ({record.kind} by {record.who}) builds on this: undo that one first. "
                f"({error.args[0] if error.args else error})"
            ) from error

    return replace(change, apply=apply)


def changes_of(connection: Connection, ids: Sequence[int], erased: frozenset[int]) -> list[ModelChange]:
    """Return what stored events do to a model."""
    return [model_change(connection, record, erased) for record in events.read(connection, ids)]


def erased_samples(connection: Connection, headers: Sequence[EventHeader]) -> frozenset[int]:
    """Return the samples that were ever erased."""
    ids = [header.id for header in headers if header.kind == EraseEvent.kind]
    return frozenset(i for record in events.read(connection, ids) for i in record.payload["samples"])


def n_erasures(headers: Sequence[EventHeader]) -> int:
    """Count the events that erased samples."""
    return sum(header.kind == EraseEvent.kind for header in headers)


def longest_stored(connection: Connection, hashes: Sequence[str]) -> int:
    """Return the number of events in the longest prefix of a history that has a snapshot."""
    stored = set(events.snapshot_histories(connection))
    return max(i for i, history in enumerate(hashes) if history in stored)
