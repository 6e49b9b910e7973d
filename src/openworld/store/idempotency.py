"""Idempotency-key store: the answer to a repeated request is read from here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, delete, insert, select

from openworld.store.tables import idempotency_keys

KEPT_HOURS = 24


@dataclass(frozen=True)
class StoredAnswer:
    """The digest of a request and its answer as JSON."""

    digest: str
    answer: str


def find(connection: Connection, key_id: str) -> StoredAnswer | None:
    """Return the answer stored under a key, if any."""
    query = select(idempotency_keys.c.digest, idempotency_keys.c.answer).where(
        idempotency_keys.c.id == key_id
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else StoredAnswer(row.digest, row.answer)


def put(connection: Connection, key_id: str, answer: StoredAnswer) -> None:
    """Store an answer and delete the expired ones."""
    now = datetime.now(UTC)
    connection.execute(
        delete(idempotency_keys).where(idempotency_keys.c.at < now - timedelta(hours=KEPT_HOURS))
    )
    row = {"id": key_id, "at": now, "digest": answer.digest, "answer": answer.answer}
    connection.execute(insert(idempotency_keys), row)
