"""Keys: checked by their secret, which is nowhere stored."""

from __future__ import annotations

import pytest
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from openworld.store import Database, people
from openworld.store.tables import keys


def test_a_key_is_found_by_its_secret_until_it_is_revoked(database: Database) -> None:
    with database.write() as connection:
        secret = people.create_key(connection, "ann", "labeller")
        assert people.create_key(connection, "bob", "admin") != secret
    with database.read() as connection:
        found = people.find_key(connection, secret)
        assert found is not None
        assert (found.name, found.role) == ("ann", "labeller")
        assert people.find_key(connection, secret[:-1]) is None
        stored = [value for row in connection.execute(select(keys)) for value in row]
        assert not any(secret in str(value) for value in stored)
    with database.write() as connection:
        assert people.revoke_key(connection, "ann")
        assert not people.revoke_key(connection, "ann")
        assert not people.revoke_key(connection, "nobody")
        assert people.find_key(connection, secret) is None
        assert [(key.name, key.revoked_at is None) for key in people.key_list(connection)] == [
            ("ann", False),
            ("bob", True),
        ]
    with pytest.raises(IntegrityError), database.write() as connection:
        people.create_key(connection, "bob", "viewer")


def test_descriptions_are_replaced_as_a_whole(database: Database) -> None:
    with database.write() as connection:
        people.set_descriptions(connection, {"cat": "purrs", "dog": "barks"})
        people.set_descriptions(connection, {"dog": "<b>barks</b>"})
        assert people.get_descriptions(connection) == {"dog": "<b>barks</b>"}
