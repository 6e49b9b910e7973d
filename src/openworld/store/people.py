"""What people say about classes, and the keys they come with."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime

from sqlalchemy import Connection, delete, insert, select, update

from openworld.store.records import Key, Role
from openworld.store.tables import descriptions, keys


def get_descriptions(connection: Connection) -> dict[str, str]:
    """Return the descriptions of classes."""
    return {row.label: row.text for row in connection.execute(select(descriptions))}


def set_descriptions(connection: Connection, texts: Mapping[str, str]) -> None:
    """Replace all descriptions."""
    connection.execute(delete(descriptions))
    if texts:
        connection.execute(insert(descriptions), [{"label": k, "text": v} for k, v in texts.items()])


def create_key(connection: Connection, name: str, role: Role) -> str:
    """Make a key and return its secret. A random secret of 256 bits needs no slow hash."""
    secret = "ow_" + secrets.token_urlsafe(32)
    row = {"name": name, "role": role, "hash": _hash(secret), "created_at": datetime.now(UTC)}
    connection.execute(insert(keys), row)
    return secret


def find_key(connection: Connection, secret: str) -> Key | None:
    """Return the key of a secret, unless it was revoked."""
    query = select(keys.c.name, keys.c.role, keys.c.created_at, keys.c.revoked_at)
    row = connection.execute(
        query.where(keys.c.hash == _hash(secret), keys.c.revoked_at.is_(None))
    ).one_or_none()
    return None if row is None else Key(**row._mapping)


def key_list(connection: Connection) -> list[Key]:
    """Return all keys by name."""
    query = select(keys.c.name, keys.c.role, keys.c.created_at, keys.c.revoked_at).order_by(keys.c.name)
    return [Key(**row._mapping) for row in connection.execute(query)]


def revoke_key(connection: Connection, name: str) -> bool:
    """Revoke a key, and tell whether there was one to revoke."""
    result = connection.execute(
        update(keys)
        .where(keys.c.name == name, keys.c.revoked_at.is_(None))
        .values(revoked_at=datetime.now(UTC))
    )
    return result.rowcount == 1


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
