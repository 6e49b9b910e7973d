"""Snapshots: stored in pieces, and whole when they are read."""

from __future__ import annotations

import pytest
from sqlalchemy import event

from openworld.store import Database, events


def test_a_snapshot_is_the_same_when_it_is_read(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_PIECE_BYTES", 1000)
    models = {"first": bytes(range(256)) * 40, "second": b"x" * 2000, "empty": b""}
    sent: list[int] = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def note(connection, cursor, statement, parameters, *rest):  # type: ignore[no-untyped-def]
        values = parameters.values() if isinstance(parameters, dict) else parameters
        sent.extend(len(value) for value in values if isinstance(value, bytes))

    with database.write() as connection:
        for history, data in models.items():
            events.add_snapshot(connection, history, data, is_base=history == "first")
    with database.read() as connection:
        assert {history: events.snapshot(connection, history) for history in models} == models
        assert events.snapshot_histories(connection)[0] == "first"
    if not database.is_shared:  # SQLite's driver would lock the interpreter while it copies a large value
        assert not sent
