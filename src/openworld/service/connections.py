"""HTTP connections that end when a request does not arrive: uvicorn bounds only pauses between requests."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 20.0  # from the first byte, or from connecting, until the headers are there
BODY_SECONDS = 60.0  # between two pieces of a body


class Connection(HttpToolsProtocol):  # type: ignore[misc, unused-ignore]
    """A connection whose client has to send a request in time; after that it may wait as long as it likes."""

    _timer: asyncio.TimerHandle | None = None
    _is_in_body = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first headers."""
        super().connection_made(transport)
        self._wait(HEADER_SECONDS)

    def connection_lost(self, error: Exception | None) -> None:
        """Wait no more."""
        self._stop_waiting()
        super().connection_lost(error)

    def data_received(self, data: bytes) -> None:
        """Take a piece of a request; the next piece of a body may come later again."""
        if self._is_in_body:
            self._wait(BODY_SECONDS)
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Wait for the headers of a request."""
        self._wait(HEADER_SECONDS)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Wait for the body of a request."""
        self._is_in_body = True
        self._wait(BODY_SECONDS)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Wait no more: now it is our turn."""
        self._is_in_body = False
        self._stop_waiting()
        super().on_message_complete()

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(seconds, self._close)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> Any:
        if not self.transport.is_closing():
            self.transport.close()
