"""Changes of the world, handed on to all who listen over HTTP: one thread for any number of listeners."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from openworld.service.results import Change
from openworld.service.world import World

_MOST_WAITING = 1000
_SECONDS_BETWEEN_LOOKS = 0.5

Listener = asyncio.Queue[Change | None]


class Broadcast:
    """Takes changes from the world's subscription into the event loop."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._listeners: set[Listener] = set()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Begin to listen; in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="openworld-broadcast", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End all listening; safe to call twice, and from any thread."""
        self._closing.set()
        self._tell(None)

    def join(self) -> None:
        """Wait for the thread to end, after `close`."""
        if self._thread is not None:
            self._thread.join()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Listener]:
        """Give a queue of the changes from now on; None in it is the end."""
        listener: Listener = asyncio.Queue(_MOST_WAITING)
        self._listeners.add(listener)
        if self._closing.is_set():
            listener.put_nowait(None)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def tell(self, kind: str, data: Mapping[str, Any]) -> None:
        """Tell all listeners of something that is not a change of the world, such as progress."""
        self._tell(Change(0, kind, data))

    def _run(self) -> None:
        with self._world.subscribe() as subscription:
            while not self._closing.is_set():
                change = subscription.get(_SECONDS_BETWEEN_LOOKS)
                if change is not None:
                    self._tell(change)

    def _tell(self, change: Change | None) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._hand_on, change)

    def _hand_on(self, change: Change | None) -> None:
        for listener in self._listeners:
            if listener.full():  # one who does not read loses the oldest: the ids then have a gap
                listener.get_nowait()
            listener.put_nowait(change)
