"""Keeping in step with the other servers on the same database.

What happens here is said to the others, and what they say is told here. A message may be lost; the log of
acts is not, so each server also looks there a few times a second.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError

from openworld.service.changes import Changes
from openworld.service.results import Rescored
from openworld.store import Database
from openworld.store.notices import Notice, Notices

_SECONDS_BETWEEN_LOOKS = 0.25
_SECONDS_BETWEEN_TRIES = 1.0
_logger = logging.getLogger("openworld.service")


class Replicas:
    """Two threads, one that speaks and one that listens; none where the database has one server.

    Parameters
    ----------
    database : Database
    changes : Changes
        What is said of it here goes to the others, and what they say comes here.
    follow : callable
        Takes in the acts of others, if there are any.
    rescored : callable
        Told of it when another has judged the pool.
    """

    def __init__(
        self,
        database: Database,
        changes: Changes,
        follow: Callable[[], object],
        rescored: Callable[[Rescored], object],
    ) -> None:
        self._changes, self._follow, self._rescored = changes, follow, rescored
        self._notices = Notices(database)
        self._closing = threading.Event()
        targets = {"speaking": self._speak, "listening": self._listen} if database.is_shared else {}
        self._threads = [
            threading.Thread(target=target, name=f"openworld-{name}", daemon=True)
            for name, target in targets.items()
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Leave the others."""
        self._closing.set()
        for thread in self._threads:
            thread.join()

    def _speak(self) -> None:
        with self._changes.subscribe() as subscription:
            while not self._closing.is_set():
                change = subscription.get(_SECONDS_BETWEEN_LOOKS)
                if change is None or not change.here:
                    continue
                # Of an act it is enough to know that there is one: the log tells the rest.
                data = {} if change.kind == "act" else change.data
                try:
                    self._notices.send(Notice(change.kind, data))
                except SQLAlchemyError as error:  # they will look by themselves
                    _logger.warning("The other servers could not be told: %s", error)

    def _listen(self) -> None:
        while not self._closing.is_set():
            try:
                with self._notices.listening() as wait:
                    self._hear(wait)
            except Exception:  # a database that is away for a while must not end this for good
                _logger.exception("The other servers could not be heard; trying again.")
                self._closing.wait(_SECONDS_BETWEEN_TRIES)

    def _hear(self, wait: Callable[[float], list[Notice]]) -> None:
        while not self._closing.is_set():
            notices = wait(_SECONDS_BETWEEN_LOOKS)
            self._follow()
            for notice in notices:
                if notice.kind == "rescored":
                    data = notice.data
                    self._rescored(Rescored(data["version"], data["recognized"], data["returned"]))
                if notice.kind != "act":
                    self._changes.tell(notice.kind, notice.data, here=False)
