from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy import update

from openworld.store import Database, requests, tables
from openworld.store.requests import KEPT_HOURS, Answered

FIRST, SECOND = Answered("d1", '{"ü": 1}'), Answered("d2", "[]")


def test_answers_are_found_until_they_are_old(database: Database) -> None:
    with database.write() as connection:
        assert requests.find(connection, "r1") is None
        requests.keep(connection, "r1", FIRST)
        requests.keep(connection, "r2", SECOND)
    with database.write() as connection:
        assert (requests.find(connection, "r1"), requests.find(connection, "r2")) == (FIRST, SECOND)
        long_ago = datetime.now(UTC) - timedelta(hours=KEPT_HOURS, minutes=1)
        connection.execute(update(tables.requests).where(tables.requests.c.id == "r1").values(at=long_ago))
        requests.keep(connection, "r3", SECOND)
        assert requests.find(connection, "r1") is None
        assert requests.find(connection, "r2") == SECOND
