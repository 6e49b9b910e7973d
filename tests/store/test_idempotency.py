from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy import update

from openworld.store import Database, idempotency, tables
from openworld.store.idempotency import KEPT_HOURS, StoredAnswer

FIRST, SECOND = StoredAnswer("d1", '{"ü": 1}'), StoredAnswer("d2", "[]")


def test_answers_are_found_until_they_are_old(database: Database) -> None:
    with database.write() as connection:
        assert idempotency.find(connection, "r1") is None
        idempotency.put(connection, "r1", FIRST)
        idempotency.put(connection, "r2", SECOND)
    with database.write() as connection:
        assert (idempotency.find(connection, "r1"), idempotency.find(connection, "r2")) == (FIRST, SECOND)
        long_ago = datetime.now(UTC) - timedelta(hours=KEPT_HOURS, minutes=1)
        connection.execute(
            update(tables.idempotency_keys).where(tables.idempotency_keys.c.id == "r1").values(at=long_ago)
        )
        idempotency.put(connection, "r3", SECOND)
        assert idempotency.find(connection, "r1") is None
        assert idempotency.find(connection, "r2") == SECOND
