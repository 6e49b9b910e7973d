"""Notifications of what happens, to other parts of the service and to listeners over HTTP."""

from __future__ import annotations

import asyncio
import itertools
import queue
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

_QUEUE_SIZE = 1000
_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Notification:
    """Something that happened.

    Kinds: `event` (appended to the log; with kind, who, version), `rescored`, `clusters`, `lease`, `unknown`
    (new samples in the pool). `here` is whether this server did it, and not another on the same database.
    """

    id: int
    kind: str
    data: Mapping[str, Any] = field(default_factory=dict)
    here: bool = True


class Subscription:
    """A queue of the notifications since it was made; close it, or use it in a with block.

    A slow subscriber loses the oldest notifications: the ids then have a gap.
    """

    def __init__(self, owner: Notifications) -> None:
        self._owner = owner
        self._queue: queue.Queue[Notification] = queue.Queue(_QUEUE_SIZE)

    def get(self, timeout: float | None = None) -> Notification | None:
        """Return the next notification, or None after `timeout` seconds."""
        try:
            return self._queue.get(timeout=timeout) if timeout != 0 else self._queue.get_nowait()
        except queue.Empty:
            return None

    def put(self, notification: Notification) -> None:
        """Add a notification, and drop the oldest if the queue is full."""
        while True:
            try:
                self._queue.put_nowait(notification)
                return
            except queue.Full:
                self.get(0)

    def close(self) -> None:
        """End the subscription."""
        self._owner.unsubscribe(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Notifications:
    """Hands every notification to all listeners and subscribers; publishing never waits for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscriptions: list[Subscription] = []
        self._listeners: dict[str, list[Callable[[Notification], None]]] = {}
        self._ids = itertools.count(1)

    def add_listener(self, kind: str, listener: Callable[[Notification], None]) -> None:
        """Call a function, which must be quick, in the publisher's thread for notifications of a kind."""
        self._listeners.setdefault(kind, []).append(listener)

    def subscribe(self) -> Subscription:
        """Return a new subscription: a context manager whose `get(timeout)` gives the next notification."""
        subscription = Subscription(self)
        with self._lock:
            self._subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Remove a subscription."""
        with self._lock:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)

    def publish(self, kind: str, data: Mapping[str, Any], *, here: bool = True) -> None:
        """Publish what happened; `here` is false for what another server did."""
        with self._lock:
            notification = Notification(next(self._ids), kind, data, here)
            for subscription in self._subscriptions:
                subscription.put(notification)
        for listener in self._listeners.get(kind, ()):
            listener(notification)


HttpListener = asyncio.Queue[Notification | None]


class Broadcast:
    """Takes notifications into the event loop: one thread for any number of HTTP listeners."""

    def __init__(self, notifications: Notifications) -> None:
        self._notifications = notifications
        self._listeners: set[HttpListener] = set()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Start the thread; called in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="openworld-broadcast", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End all streams; may be called twice, and from any thread."""
        self._closing.set()
        self._send(None)

    def join(self) -> None:
        """Wait for the thread to end, after `close`."""
        if self._thread is not None:
            self._thread.join()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[HttpListener]:
        """Give a queue of the notifications from now on; None in it is the end."""
        listener: HttpListener = asyncio.Queue(_QUEUE_SIZE)
        self._listeners.add(listener)
        if self._closing.is_set():
            listener.put_nowait(None)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def send(self, kind: str, data: Mapping[str, Any]) -> None:
        """Send something to the HTTP listeners of this server alone, such as progress."""
        self._send(Notification(0, kind, data))

    def _run(self) -> None:
        with self._notifications.subscribe() as subscription:
            while not self._closing.is_set():
                notification = subscription.get(_POLL_SECONDS)
                if notification is not None:
                    self._send(notification)

    def _send(self, notification: Notification | None) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._put, notification)

    def _put(self, notification: Notification | None) -> None:
        for listener in self._listeners:
            if listener.full():  # a slow listener loses the oldest: the ids then have a gap
                listener.get_nowait()
            listener.put_nowait(notification)
