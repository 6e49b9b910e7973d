"""API keys; the database stores only hashes of the secrets."""

from __future__ import annotations

import hashlib
import secrets
from datetime import UTC, datetime

from sqlalchemy import Connection, insert, select, update

from openworld.store.records import Key, Role
from openworld.store.tables import keys


def create_key(connection: Connection, name: str, role: Role) -> str:
    """Create a key and return its secret. A random secret of 256 bits needs no slow hash."""
    secret = "ow_" + secrets.token_urlsafe(32)
    row = {"name": name, "role": role, "hash": _hash(secret), "created_at": datetime.now(UTC)}
    connection.execute(insert(keys), row)
    return secret


def find_key(connection: Connection, secret: str) -> Key | None:
    """Return the key with this secret, unless it was revoked."""
    query = select(keys.c.name, keys.c.role, keys.c.created_at, keys.c.revoked_at)
    row = connection.execute(
        query.where(keys.c.hash == _hash(secret), keys.c.revoked_at.is_(None))
    ).one_or_none()
    return None if row is None else Key(**row._mapping)


def key_list(connection: Connection) -> list[Key]:
    """Return all keys, sorted by name."""
    query = select(keys.c.name, keys.c.role, keys.c.created_at, keys.c.revoked_at).order_by(keys.c.name)
    return [Key(**row._mapping) for row in connection.execute(query)]


def revoke_key(connection: Connection, name: str) -> bool:
    """Revoke a key; return False if there is no valid key with this name."""
    result = connection.execute(
        update(keys)
        .where(keys.c.name == name, keys.c.revoked_at.is_(None))
        .values(revoked_at=datetime.now(UTC))
    )
    return result.rowcount == 1


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
