"""What all servers on a database share: a few things, by name."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select

from openworld.store.tables import kept


def get(connection: Connection, name: str) -> bytes | None:
    """Return what is kept under a name, if anything is."""
    data = connection.execute(select(kept.c.data).where(kept.c.name == name)).scalar_one_or_none()
    return None if data is None else bytes(data)


def put(connection: Connection, name: str, data: bytes) -> None:
    """Keep something under a name, in place of what was there."""
    connection.execute(delete(kept).where(kept.c.name == name))
    connection.execute(insert(kept), {"name": name, "data": data})
