"""Named values that all servers of a database share."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select

from openworld.store.tables import shared_values


def get(connection: Connection, name: str) -> bytes | None:
    """Return the value of a name, or None."""
    data = connection.execute(
        select(shared_values.c.data).where(shared_values.c.name == name)
    ).scalar_one_or_none()
    return None if data is None else bytes(data)


def put(connection: Connection, name: str, data: bytes) -> None:
    """Set the value of a name."""
    connection.execute(delete(shared_values).where(shared_values.c.name == name))
    connection.execute(insert(shared_values), {"name": name, "data": data})
