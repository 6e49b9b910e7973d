"""Tables of the append-only event log, the model versions and the model snapshots."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, text, update

from openworld.store.records import Version
from openworld.store.samples import chunks
from openworld.store.tables import LARGEST_ID, events, snapshots, versions

_PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class EventRecord:
    """A stored event; `openworld.service.events` defines the kinds.

    `digest` is equal for events with the same kind and payload. `undoes` is the id of the event that an undo
    or a redo cancels.
    """

    id: int
    at: datetime
    who: str
    kind: str
    payload: Mapping[str, Any]
    digest: str
    undoes: int | None
    model_version: int


def digest_of(kind: str, payload: Mapping[str, Any]) -> str:
    """Return a hash of the kind and payload of an event."""
    return hashlib.sha256(f"{kind} {json.dumps(payload, sort_keys=True)}".encode()).hexdigest()


def append(
    connection: Connection,
    who: str,
    kind: str,
    payload: Mapping[str, Any],
    model_version: int,
    undoes: int | None = None,
) -> EventRecord:
    """Append an event to the log."""
    row: dict[str, Any] = {
        "at": datetime.now(UTC),
        "who": who,
        "kind": kind,
        "payload": dict(payload),
        "digest": digest_of(kind, payload),
        "undoes": undoes,
        "model_version": model_version,
    }
    event_id = connection.execute(insert(events).returning(events.c.id), row).scalar_one()
    return EventRecord(id=event_id, **row)


def last_id(connection: Connection) -> int:
    """Return the id of the last event, 0 for an empty log."""
    return int(connection.execute(select(func.coalesce(func.max(events.c.id), 0))).scalar_one())


def count(connection: Connection, kind: str) -> int:
    """Count the events of a kind."""
    query = select(func.count()).select_from(events).where(events.c.kind == kind)
    return int(connection.execute(query).scalar_one())


def read_after(connection: Connection, event_id: int) -> Iterator[EventRecord]:
    """Yield the events with a larger id, oldest first; 0 yields all of them."""
    query = select(events).where(events.c.id > event_id).order_by(events.c.id)
    yield from map(_record, connection.execute(query))


def read(connection: Connection, ids: Sequence[int]) -> Iterator[EventRecord]:
    """Yield the events with these ids, which must be ascending."""
    for some in chunks(ids):
        yield from map(
            _record, connection.execute(select(events).where(events.c.id.in_(some)).order_by(events.c.id))
        )


def newest(connection: Connection, before: int | None, limit: int, who: str | None) -> list[EventRecord]:
    """Return events, newest first: those with an id below `before`, of one person or of all."""
    query = select(events).order_by(events.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(events.c.id < min(before, LARGEST_ID))
    if who is not None:
        query = query.where(events.c.who == who)
    return [_record(row) for row in connection.execute(query)]


def _record(row: Row[Any]) -> EventRecord:
    return EventRecord(**row._mapping)


# -- versions -------------------------------------------------------------------------------------


def add_version(
    connection: Connection, number: int, event_id: int | None, history: str, summary: Mapping[str, Any]
) -> None:
    """Add a version of the model."""
    connection.execute(
        insert(versions),
        {
            "id": number,
            "event_id": event_id,
            "history": history,
            "created_at": datetime.now(UTC),
            "summary": dict(summary),
        },
    )


def drop_versions(connection: Connection) -> None:
    """Delete all versions of the model."""
    connection.execute(delete(versions))


def version_list(connection: Connection, before: int | None = None, limit: int = 100) -> list[Version]:
    """Return versions, newest first."""
    query = select(versions).order_by(versions.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(versions.c.id < min(before, LARGEST_ID))
    return [Version(**row._mapping) for row in connection.execute(query)]


def version(connection: Connection, number: int) -> Version | None:
    """Return the version with this number, or None."""
    if abs(number) > LARGEST_ID:
        return None
    row = connection.execute(select(versions).where(versions.c.id == number)).one_or_none()
    return None if row is None else Version(**row._mapping)


def versions_of(connection: Connection, event_ids: Sequence[int]) -> list[Version]:
    """Return the versions that these events created."""
    return [
        Version(**row._mapping)
        for some in chunks(event_ids)
        for row in connection.execute(select(versions).where(versions.c.event_id.in_(some)))
    ]


def count_rescored(connection: Connection, number: int, recognized: int, returned: int) -> None:
    """Add to a version's counts of samples that left the unknown pool and that returned to it."""
    found = version(connection, number)
    if found is not None:
        before = found.summary
        counts = {
            "recognized": before.get("recognized", 0) + recognized,
            "returned": before.get("returned", 0) + returned,
        }
        row = versions.c.id == number
        connection.execute(update(versions).where(row).values(summary={**before, **counts}))


def rescored_by(connection: Connection, after: int, last: int) -> tuple[int, int]:
    """Return how many samples left the unknown pool and returned to it in versions `after` + 1 to `last`."""
    query = select(versions.c.summary).where(versions.c.id > after, versions.c.id <= last)
    summaries = list(connection.execute(query).scalars())
    recognized, returned = (
        sum(summary.get(key, 0) for summary in summaries) for key in ("recognized", "returned")
    )
    return recognized, returned


# -- snapshots ------------------------------------------------------------------------------------


def add_snapshot(connection: Connection, history: str, data: bytes, *, is_base: bool = False) -> None:
    """Store the model file of a history, which is the hash of the events in the model.

    SQLite gets it in pieces: its driver keeps the interpreter locked while it copies a value.
    """
    in_pieces = connection.dialect.name == "sqlite"
    value = func.zeroblob(len(data)) if in_pieces else data
    row = {"history": history, "is_base": is_base, "created_at": datetime.now(UTC), "data": value}
    connection.execute(insert(snapshots).values(row))
    if in_pieces:
        row_id = connection.execute(text("SELECT rowid FROM snapshots WHERE history = :h"), {"h": history})
        driver: Any = connection.connection.driver_connection
        with driver.blobopen("snapshots", "data", row_id.scalar_one()) as blob:
            for start in range(0, len(data), _PIECE_BYTES):
                blob.write(memoryview(data)[start : start + _PIECE_BYTES])


def snapshot_histories(connection: Connection) -> list[str]:
    """Return the histories that have a snapshot: first that of the initial model, then newest first."""
    order = (snapshots.c.is_base.desc(), snapshots.c.created_at.desc())
    return list(connection.execute(select(snapshots.c.history).order_by(*order)).scalars())


def snapshot(connection: Connection, history: str) -> bytes:
    """Return the model file of a history."""
    query = select(snapshots.c.data).where(snapshots.c.history == history)
    return bytes(connection.execute(query).scalar_one())


def drop_snapshots(connection: Connection, histories: Sequence[str]) -> None:
    """Delete snapshots."""
    connection.execute(delete(snapshots).where(snapshots.c.history.in_(histories)))
