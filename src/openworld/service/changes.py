"""Telling those who watch what happened."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Mapping
from typing import Any, Self

from openworld.service.results import Change

_MOST_WAITING = 1000


class Subscription:
    """The changes since it was made; close it, or use it in a with block, when done.

    One who does not listen loses the oldest changes: the ids then have a gap.
    """

    def __init__(self, owner: Changes) -> None:
        self._owner = owner
        self._waiting: queue.Queue[Change] = queue.Queue(_MOST_WAITING)

    def get(self, timeout: float | None = None) -> Change | None:
        """Return the next change, or None when `timeout` seconds have passed."""
        try:
            return self._waiting.get(timeout=timeout) if timeout != 0 else self._waiting.get_nowait()
        except queue.Empty:
            return None

    def put(self, change: Change) -> None:
        """Add a change, in place of the oldest where there are too many."""
        while True:
            try:
                self._waiting.put_nowait(change)
                return
            except queue.Full:
                self.get(0)

    def close(self) -> None:
        """Listen no more."""
        self._owner.unsubscribe(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Changes:
    """Hands every change to every subscriber; telling never waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscribers: list[Subscription] = []
        self._ids = itertools.count(1)

    def subscribe(self) -> Subscription:
        """Return a new subscription."""
        subscription = Subscription(self)
        with self._lock:
            self._subscribers.append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Remove a subscription."""
        with self._lock:
            if subscription in self._subscribers:
                self._subscribers.remove(subscription)

    def tell(self, kind: str, data: Mapping[str, Any], *, here: bool = True) -> None:
        """Tell all subscribers; of what another server has done, with `here` false."""
        with self._lock:
            change = Change(next(self._ids), kind, data, here)
            for subscription in self._subscribers:
                subscription.put(change)
