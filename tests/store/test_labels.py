"""Stored labels and descriptions."""

from __future__ import annotations

from openworld.store import Database, labels


def test_descriptions_are_replaced_as_a_whole(database: Database) -> None:
    with database.write() as connection:
        labels.set_descriptions(connection, {"cat": "purrs", "dog": "barks"})
        labels.set_descriptions(connection, {"dog": "<b>barks</b>"})
        assert labels.get_descriptions(connection) == {"dog": "<b>barks</b>"}
