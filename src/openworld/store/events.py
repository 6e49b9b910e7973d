"""The append-only event log, the versions of the model that events made, and snapshots of the model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from openworld.store.records import Version
from openworld.store.samples import chunks
from openworld.store.tables import LARGEST_ID, events, snapshots, versions


@dataclass(frozen=True)
class EventRecord:
    """An event as it is stored; `openworld.service.events` says what each kind means.

    `digest` is equal for events that do the same. `undoes` is the event that an undo or a redo cancels.
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
    """Return a hash that is equal for events that do the same."""
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
    """Yield the events after one, oldest first; all of them after 0."""
    query = select(events).where(events.c.id > event_id).order_by(events.c.id)
    yield from map(_record, connection.execute(query))


def read(connection: Connection, ids: Sequence[int]) -> Iterator[EventRecord]:
    """Yield events by their ids, which must be ascending."""
    for some in chunks(ids):
        yield from map(
            _record, connection.execute(select(events).where(events.c.id.in_(some)).order_by(events.c.id))
        )


def newest(connection: Connection, before: int | None, limit: int, who: str | None) -> list[EventRecord]:
    """Return events, newest first."""
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
    """Add a version."""
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


def version_list(connection: Connection, before: int | None = None, limit: int = 100) -> list[Version]:
    """Return versions, newest first."""
    query = select(versions).order_by(versions.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(versions.c.id < min(before, LARGEST_ID))
    return [Version(**row._mapping) for row in connection.execute(query)]


def version(connection: Connection, number: int) -> Version | None:
    """Return one version, if there is one."""
    if abs(number) > LARGEST_ID:
        return None
    row = connection.execute(select(versions).where(versions.c.id == number)).one_or_none()
    return None if row is None else Version(**row._mapping)


def versions_of(connection: Connection, event_ids: Sequence[int]) -> list[Version]:
    """Return the versions that events have made."""
    return [
        Version(**row._mapping)
        for some in chunks(event_ids)
        for row in connection.execute(select(versions).where(versions.c.event_id.in_(some)))
    ]


def amend_version(connection: Connection, number: int, more: Mapping[str, Any]) -> None:
    """Add to the summary of a version."""
    found = version(connection, number)
    if found is not None:
        summary = {**found.summary, **more}
        connection.execute(update(versions).where(versions.c.id == number).values(summary=summary))


# -- snapshots ------------------------------------------------------------------------------------


def add_snapshot(connection: Connection, history: str, data: bytes, *, is_base: bool = False) -> None:
    """Store the model of a history."""
    row = {"history": history, "is_base": is_base, "created_at": datetime.now(UTC), "data": data}
    connection.execute(insert(snapshots), row)


def snapshot_histories(connection: Connection) -> list[str]:
    """Return the histories with a snapshot: that of the first model, then the newest first."""
    order = (snapshots.c.is_base.desc(), snapshots.c.created_at.desc())
    return list(connection.execute(select(snapshots.c.history).order_by(*order)).scalars())


def snapshot(connection: Connection, history: str) -> bytes:
    """Return the bytes of a snapshot."""
    query = select(snapshots.c.data).where(snapshots.c.history == history)
    return bytes(connection.execute(query).scalar_one())


def drop_snapshots(connection: Connection, histories: Sequence[str]) -> None:
    """Delete snapshots."""
    connection.execute(delete(snapshots).where(snapshots.c.history.in_(histories)))
