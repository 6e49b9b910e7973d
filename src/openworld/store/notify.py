"""Messages between the servers of one PostgreSQL database, by LISTEN and NOTIFY."""

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
_MAX_BYTES = 7_900  # PostgreSQL accepts less than 8,000


@dataclass(frozen=True)
class Message:
    """A message to or from another server."""

    kind: str
    data: Mapping[str, Any]


class NotifyChannel:
    """Sends messages to the other servers and receives theirs.

    A message may be lost, for example when a connection breaks, so receivers must also poll the event log.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._server_id = uuid4().hex

    def send(self, message: Message) -> None:
        """Send a message; one that is too long for PostgreSQL is dropped."""
        encoded = json.dumps([self._server_id, message.kind, dict(message.data)])
        if len(encoded) > _MAX_BYTES:
            return
        with self._database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(
                text("SELECT pg_notify(:channel, :message)"), {"channel": _CHANNEL, "message": encoded}
            )

    @contextmanager
    def listening(self) -> Iterator[Callable[[float], list[Message]]]:
        """Yield a function that waits for messages of other servers, up to some seconds, and returns them."""
        borrowed = self._database.engine.raw_connection()
        connection: Any = borrowed.driver_connection  # psycopg's connection
        borrowed.detach()  # a listening connection cannot go back to the pool
        try:
            connection.autocommit = True
            connection.execute(f"LISTEN {_CHANNEL}")

            def receive(seconds: float) -> list[Message]:
                received = [
                    json.loads(notify.payload)
                    for notify in connection.notifies(timeout=seconds, stop_after=1)
                ]
                return [Message(kind, data) for sender, kind, data in received if sender != self._server_id]

            yield receive
        finally:
            borrowed.close()
