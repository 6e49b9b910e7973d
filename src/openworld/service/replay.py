"""Replay: which events are in effect, and the model that they make, from the nearest snapshot.

The log only grows. The model is a function of the events in effect, so undo means replay without an event.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from time import perf_counter

import structlog
from sqlalchemy import Connection

from openworld.model_file import ModelFileError
from openworld.service.events import EVENT_KINDS, EraseEvent, RedoEvent, RollbackEvent, UndoEvent, event_of
from openworld.service.live_model import NO_CHANGE, Model, ModelChange, apply_change, from_bytes
from openworld.service.settings import WorldSettings
from openworld.service.validation import Refused
from openworld.service.world_event import WorldEvent
from openworld.store import Database, events
from openworld.store.events import EventRecord
from openworld.store.samples import features_of
from openworld.store.storage import DamagedError

_log = structlog.get_logger("openworld.replay")

_UNDONE_AFTER_REPLAY = 10  # events that can be undone without another replay
_WORTH = 10  # a snapshot is due when replay would take this many times as long as writing it


@dataclass(frozen=True)
class EventHeader:
    """An event without its payload: what is needed to find out which events are in effect.

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
        target = event_of(record.kind, record.payload).target
        return cls(record.id, record.kind, record.who, record.digest, record.undoes, target)

    @property
    def event_class(self) -> type[WorldEvent]:
        """The class of the event."""
        return EVENT_KINDS[self.kind]


def never_learned(connection: Connection, samples: Iterable[int]) -> list[int]:
    """Return the samples that no event of the log has ever learned, which may be deleted.

    An undone event can be redone, and a class that was forgotten is still learned in every replay.
    """
    left = set(samples)
    for record in events.read_after(connection, 0) if left else ():
        left.difference_update(event_of(record.kind, record.payload).learned)
    return sorted(left)


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
    undoing the rollback restores the events that were in effect before it.
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


# -- replay ---------------------------------------------------------------------------------------


def model_change(connection: Connection, record: EventRecord, erased: frozenset[int]) -> ModelChange:
    """Return what a stored event does to a model; where it is refused, an event before it was undone."""
    whole = event_of(record.kind, record.payload)
    event = whole.without(erased)
    if whole.learned and not event.learned:
        return NO_CHANGE
    change = event.change_of(features_of(connection, event.learned))

    def apply(model: Model) -> None:
        try:
            change.apply(model)
        except (ValueError, TypeError, LookupError) as error:
            raise Refused(
                f"Event {record.id} ({record.kind} by {record.who}) depends on this: undo that one first. "
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


class Snapshots:
    """The stored snapshots of the model: where replay starts, and when another one is worth its cost."""

    def __init__(self, database: Database, settings: WorldSettings) -> None:
        self._database, self._settings = database, settings
        self._events_since, self._seconds_since = 0, 0.0  # what a restart would have to replay
        self._write_seconds = 0.0

    def n_stored(self, hashes: Sequence[str]) -> int:
        """Return the number of events in the longest prefix of a history that has a snapshot."""
        with self._database.read() as connection:
            return _n_stored(connection, hashes)

    def replay(
        self, ids: Sequence[int], hashes: Sequence[str], erased: frozenset[int], *, from_first: bool = False
    ) -> tuple[Model, list[ModelChange]]:
        """Replay events onto the snapshot of the longest prefix of their history that has a sound one.

        The last few are returned as changes that are still to be applied, so that they can be undone. With
        `from_first` only the first model is used: snapshots may have learned samples that are erased now.
        """
        with self._database.read() as connection:
            started = perf_counter()
            n_stored, model = _stored_model(connection, hashes[:1] if from_first else hashes)
            self._write_seconds = perf_counter() - started  # writing one takes about as long
            n_last = max(n_stored, len(ids) - _UNDONE_AFTER_REPLAY)
            for record in events.read(connection, ids[n_stored:n_last]):
                apply_change(model, model_change(connection, record, erased), is_last=False)
            return model, changes_of(connection, ids[n_last:], erased)

    def count_event(self, seconds: float) -> None:
        """Count an event that a restart would have to replay, and how long it took."""
        self._events_since += 1
        self._seconds_since += seconds

    def due(self, times: int = 1) -> bool:
        """Return whether a restart would replay for so long that a snapshot is worth its cost.

        Events wait while a snapshot is written, so a model that takes long to write gets fewer.
        """
        seconds = max(self._settings.snapshot_seconds, _WORTH * self._write_seconds)
        return (
            self._events_since >= times * self._settings.snapshot_events
            or self._seconds_since >= times * seconds
        )

    def restart_count(self) -> None:
        """Count from here: the model as it is now is about to be stored."""
        self._events_since, self._seconds_since = 0, 0.0

    def drop_all(self, connection: Connection) -> None:
        """Delete all snapshots but the first model."""
        events.drop_snapshots(connection, events.snapshot_histories(connection)[1:])

    def require_new(self) -> None:
        """Make a snapshot due, after all were deleted."""
        self._events_since = sys.maxsize

    def store(self, data: bytes, history: str, n_known_erasures: int, started: float) -> None:
        """Store a snapshot and delete old ones, unless samples were erased that the model has learned."""
        with self._database.write() as connection:
            stored = events.snapshot_histories(connection)
            # Another server may have erased samples that this model has learned.
            is_current = events.count(connection, EraseEvent.kind) == n_known_erasures
            if is_current and history not in stored:
                events.add_snapshot(connection, history, data)
                events.drop_snapshots(connection, stored[self._settings.snapshots_kept :])
        self._write_seconds = perf_counter() - started


def _n_stored(connection: Connection, hashes: Sequence[str]) -> int:
    stored = set(events.snapshot_histories(connection))
    return max(i for i, history in enumerate(hashes) if history in stored)


def _stored_model(connection: Connection, hashes: Sequence[str]) -> tuple[int, Model]:
    """Return the model of the longest prefix of a history with a sound snapshot, and its number of events."""
    stored = set(events.snapshot_histories(connection))
    for n_events, history in reversed(list(enumerate(hashes))):
        if history in stored:
            try:
                return n_events, from_bytes(events.snapshot(connection, history))
            except ModelFileError as error:
                _log.warning("damaged snapshot", events=n_events, reason=str(error))
    raise DamagedError("The first model in the database is damaged: restore a backup.")
