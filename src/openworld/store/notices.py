"""Short messages between the servers on one PostgreSQL, by LISTEN and NOTIFY."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from sqlalchemy import text

from openworld.store.database import Database

_CHANNEL = "openworld"
_LONGEST = 7_900  # bytes, of the 8,000 that PostgreSQL takes


@dataclass(frozen=True)
class Notice:
    """What another server says."""

    kind: str
    data: Mapping[str, Any]


class Notices:
    """Sends to the other servers and hears them, but not itself.

    Messages may be lost, as when a connection is: whoever needs to know must look, too.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._name = uuid4().hex

    def send(self, notice: Notice) -> None:
        """Tell the others; one that is too long is not sent."""
        message = json.dumps([self._name, notice.kind, dict(notice.data)])
        if len(message) > _LONGEST:
            return
        with self._database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(
                text("SELECT pg_notify(:channel, :message)"), {"channel": _CHANNEL, "message": message}
            )

    @contextmanager
    def listening(self) -> Iterator[Callable[[float], list[Notice]]]:
        """Give a function that waits for messages, some seconds at most, and returns what came."""
        borrowed = self._database.engine.raw_connection()
        connection: Any = borrowed.driver_connection  # of psycopg
        borrowed.detach()  # it listens, so nobody else can have it
        try:
            connection.autocommit = True
            connection.execute(f"LISTEN {_CHANNEL}")

            def wait(seconds: float) -> list[Notice]:
                messages = [n.payload for n in connection.notifies(timeout=seconds, stop_after=1)]
                return [notice for message in messages for notice in self._read(message)]

            yield wait
        finally:
            borrowed.close()

    def _read(self, message: str) -> list[Notice]:
        sender, kind, data = json.loads(message)
        return [] if sender == self._name else [Notice(kind, data)]
