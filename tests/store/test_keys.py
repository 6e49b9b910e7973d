"""Keys: checked by their secret, which is nowhere stored."""

from __future__ import annotations

import pytest
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from openworld.store import Database, keys, tables


def test_a_key_is_found_by_its_secret_until_it_is_revoked(database: Database) -> None:
    with database.write() as connection:
        secret = keys.create_key(connection, "ann", "labeler")
        assert keys.create_key(connection, "bob", "admin") != secret
    with database.read() as connection:
        found = keys.find_key(connection, secret)
        assert found is not None
        assert (found.name, found.role) == ("ann", "labeler")
        assert keys.find_key(connection, secret[:-1]) is None
        stored = [value for row in connection.execute(select(tables.keys)) for value in row]
        assert not any(secret in str(value) for value in stored)
    with database.write() as connection:
        assert keys.revoke_key(connection, "ann")
        assert not keys.revoke_key(connection, "ann")
        assert not keys.revoke_key(connection, "nobody")
        assert keys.find_key(connection, secret) is None
        assert [(key.name, key.revoked_at is None) for key in keys.key_list(connection)] == [
            ("ann", False),
            ("bob", True),
        ]
    with pytest.raises(IntegrityError), database.write() as connection:
        keys.create_key(connection, "bob", "viewer")
