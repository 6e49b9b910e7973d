"""Which events are in effect: the event log folded over undo, redo and rollback.

The log only grows. The model is a function of the events in effect, so undo means replay without an event.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from openworld.service.events import EVENT_KINDS, RedoEvent, RollbackEvent, UndoEvent, WorldEvent
from openworld.store.events import EventRecord


@dataclass(frozen=True)
class EventHeader:
    """An event without its payload: what is needed to tell which events are in effect.

    `target` is, for a rollback, the event that made the version returned to, 0 for the first model.
    """

    id: int
    kind: str
    who: str
    digest: str
    undoes: int | None
    target: int

    @classmethod
    def of(cls, record: EventRecord) -> EventHeader:
        """Return the header of a stored event."""
        target = record.payload["event"] if record.kind == RollbackEvent.kind else 0
        return cls(record.id, record.kind, record.who, record.digest, record.undoes, target)

    @property
    def event_class(self) -> type[WorldEvent]:
        """The class of the event."""
        return EVENT_KINDS[self.kind]


def undone_by(headers: Sequence[EventHeader]) -> dict[int, int]:
    """Return, for each event that is undone, the event that undoes it. An undone undo undoes nothing."""
    by: dict[int, int] = {}
    for header in reversed(headers):
        if header.undoes is not None and header.id not in by:
            by[header.undoes] = header.id
    return by


def model_events(headers: Sequence[EventHeader]) -> list[int]:
    """Return the events in effect that make the model, ascending.

    A rollback to a version brings back the events that were in effect then, whatever was undone before it;
    undoing the rollback returns to where one was.
    """
    by = undone_by(headers)
    start = max(
        (i for i, header in enumerate(headers) if header.kind == RollbackEvent.kind and header.id not in by),
        default=-1,
    )
    ids: dict[int, None] = {}
    if start >= 0:
        target = headers[start].target
        ids = dict.fromkeys(model_events([header for header in headers[:start] if header.id <= target]))
    for header in headers[start + 1 :]:
        if header.id in by:
            continue
        if header.event_class.changes_model:
            ids[header.id] = None
        elif header.kind == UndoEvent.kind and header.undoes is not None:
            ids.pop(header.undoes, None)
    return list(ids)


def events_in_effect(headers: Sequence[EventHeader]) -> list[int]:
    """Return all events in effect, ascending: also those that change labels or clusters but not the model."""
    by = undone_by(headers)
    others = [
        header.id
        for header in headers
        if header.event_class.undoable
        and not header.event_class.changes_model
        and not header.event_class.rewinds
        and header.id not in by
    ]
    return sorted(model_events(headers) + others)


def can_be_undone(headers: Sequence[EventHeader]) -> set[int]:
    """Return the events that undo can take back: those in effect, and rollbacks that are not undone."""
    by = undone_by(headers)
    rollbacks = {header.id for header in headers if header.kind == RollbackEvent.kind and header.id not in by}
    return {*events_in_effect(headers), *rollbacks}


def last_to_undo(headers: Sequence[EventHeader], who: str) -> int | None:
    """Return the last event of a person that can be undone."""
    possible = can_be_undone(headers)
    return next(
        (header.id for header in reversed(headers) if header.who == who and header.id in possible), None
    )


def last_to_redo(headers: Sequence[EventHeader], who: str) -> int | None:
    """Return the last undo of a person that can be taken back: none once they have done something else."""
    by = undone_by(headers)
    for header in reversed(headers):
        if header.who != who or header.kind == RedoEvent.kind:
            continue
        if header.kind != UndoEvent.kind:
            return None
        if header.id not in by:
            return header.id
    return None


def history_hashes(base: str, digests: Sequence[str]) -> list[str]:
    """Return the hash of each prefix of a history, from the first model alone to the whole."""
    return list(accumulate(digests, extend_hash, initial=base))


def extend_hash(history: str, digest: str) -> str:
    """Return the hash of a history with one more event."""
    return hashlib.sha256(f"{history} {digest}".encode()).hexdigest()
