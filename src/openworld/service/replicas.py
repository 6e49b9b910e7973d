"""Replicas: several servers on one database.

Each server sends its notifications to the others and publishes theirs. A message may be lost, so each server
also polls the event log a few times a second.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlalchemy.exc import SQLAlchemyError

from openworld.service.event_log import EventLog
from openworld.service.notifications import Notifications
from openworld.store import shared_values
from openworld.store.notify import Message, NotifyChannel

_POLL_SECONDS = 0.25
_RETRY_SECONDS = 1.0
_logger = logging.getLogger("openworld.service")


class Replicas:
    """Keeps this server in step with the others; also their shared values and locks.

    On a shared database one thread sends and one receives; on SQLite there is one server, and no thread.
    """

    def __init__(self, log: EventLog, notifications: Notifications) -> None:
        self._log, self._notifications = log, notifications
        self._database = log.database
        self._channel = NotifyChannel(self._database)
        self._closing = threading.Event()
        targets = {"sending": self._send, "receiving": self._receive} if self._database.is_shared else {}
        self._threads = [
            threading.Thread(target=target, name=f"openworld-{name}", daemon=True)
            for name, target in targets.items()
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop sending and receiving."""
        self._closing.set()
        for thread in self._threads:
            thread.join()

    def lock(self, name: str) -> AbstractContextManager[bool]:
        """Hold a lock that one server at a time can hold."""
        return self._database.advisory_lock(name)

    def lead(self, job: str) -> AbstractContextManager[bool]:
        """Yield whether this server leads a background job for all of them; it leads until the block ends."""
        return self._database.advisory_lock(job, wait=False, idle_milliseconds=0)

    def shared(self, name: str) -> bytes | None:
        """Return a value that the servers share, or None."""
        with self._database.read() as connection:
            return shared_values.get(connection, name)

    def share(self, name: str, data: bytes, *, replace: bool = True) -> bytes:
        """Set a value that the servers share; return the value stored afterwards.

        With ``replace=False`` an existing value stays.
        """
        with self._database.write() as connection:
            before = None if replace else shared_values.get(connection, name)
            if before is None:
                shared_values.put(connection, name, data)
        return data if before is None else before

    def _send(self) -> None:
        with self._notifications.subscribe() as subscription:
            while not self._closing.is_set():
                notification = subscription.get(_POLL_SECONDS)
                if notification is None or not notification.here:
                    continue
                # The payload is not needed: the others read the event from the log.
                data = {} if notification.kind == "event" else notification.data
                try:
                    self._channel.send(Message(notification.kind, data))
                except SQLAlchemyError as error:  # they poll the log, too
                    _logger.warning("Other servers could not be notified: %s", error)

    def _receive(self) -> None:
        while not self._closing.is_set():
            try:
                with self._channel.listening() as receive:
                    self._follow(receive)
            except Exception:  # the database may be unreachable for a while
                _logger.exception("Lost contact with the other servers; trying again.")
                self._closing.wait(_RETRY_SECONDS)

    def _follow(self, receive: Callable[[float], list[Message]]) -> None:
        while not self._closing.is_set():
            messages = receive(_POLL_SECONDS)
            self._log.follow()
            for message in messages:
                if message.kind != "event":
                    self._notifications.publish(message.kind, message.data, here=False)
