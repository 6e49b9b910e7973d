"""Requests that were answered, so that one that is sent again is not done again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, delete, insert, select

from openworld.store.tables import requests

KEPT_HOURS = 24


@dataclass(frozen=True)
class Answered:
    """What was asked, as a digest, and what was answered, as JSON."""

    digest: str
    answer: str


def find(connection: Connection, request_id: str) -> Answered | None:
    """Return what was answered to a request, if it was done."""
    query = select(requests.c.digest, requests.c.answer).where(requests.c.id == request_id)
    row = connection.execute(query).one_or_none()
    return None if row is None else Answered(row.digest, row.answer)


def keep(connection: Connection, request_id: str, answered: Answered) -> None:
    """Keep an answer, and drop those that are too old."""
    now = datetime.now(UTC)
    connection.execute(delete(requests).where(requests.c.at < now - timedelta(hours=KEPT_HOURS)))
    row = {"id": request_id, "at": now, "digest": answered.digest, "answer": answered.answer}
    connection.execute(insert(requests), row)
