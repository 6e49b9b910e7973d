"""Bodies of requests: read after authentication, bounded in size and structure, parsed off the event loop.

Python parses JSON with the interpreter locked, whichever thread does it: 60 MB of `[1],[1],...` stop every
other request for seconds and take thirty times as much memory. What cannot fit the model is refused before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openworld.service.api.errors import error_response
from openworld.service.middleware import limited, too_large

if TYPE_CHECKING:
    from openworld.service.state import State

_SAMPLES = ("/v1/recognize", "/v1/learn", "/try/")  # where samples are sent, which may be large
_SESSION = "/v1/session"
_SESSION_BYTES = 16_000
_OTHER_BYTES = 2_000_000  # 100,000 sample ids

SMALL = 1 << 16  # bytes that are parsed in a moment, whatever they are
_PIECE = 1 << 18
_MOST_IDS = 100_000


class RequestBodies:
    """Middleware that refuses a body before it is read, or before it is parsed.

    Whoever has no key gets 401 before a byte of a large body is read. Logging in has a small body.
    """

    def __init__(self, app: ASGIApp, *, service: State) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"")
        n_bytes = int(length) if length.isdigit() else None if b"transfer-encoding" in headers else 0
        limit = self._limit(scope["path"])
        if n_bytes is not None and n_bytes <= min(limit, SMALL):
            await self._app(scope, receive, send)
            return
        try:
            if n_bytes is not None and n_bytes > limit:
                raise too_large(limit)
            receive = await self._checked(scope, headers, limited(receive, limit))
        except HTTPException as error:
            await error_response(error)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _checked(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive) -> Receive:
        path = scope["path"]
        if path != _SESSION and path.startswith(("/v1/", "/try/")):
            await self._service.auth.authenticate(Request(scope))
        if b"json" not in headers.get(b"content-type", b"").lower():  # files and arrays are not parsed
            return receive
        body = await _read_body(receive)
        if len(body) > SMALL and not await run_in_threadpool(self._is_bounded, body):
            raise HTTPException(413, "The body has more lists or values than any request needs.")
        return _replayed(body, receive)

    def _limit(self, path: str) -> int:
        if path.startswith(_SAMPLES):
            return int(self._service.settings.max_body_mb * 1e6)
        return _SESSION_BYTES if path == _SESSION else _OTHER_BYTES

    def _is_bounded(self, body: bytes) -> bool:
        most = self._service.settings.max_batch
        n_values = max(_MOST_IDS, most * self._service.batcher.n_features) + 4 * most + 100
        return is_bounded(body, most + 100, n_values)


def is_bounded(body: bytes, most_lists: int, most_values: int) -> bool:
    """Tell whether JSON has at most so many lists and objects, and so many values.

    It looks at a piece at a time, so that other threads have their turn, and stops as soon as it knows.
    """
    n_lists = n_values = n_quotes = 0
    is_text, carried = False, b""
    for start in range(0, len(body), _PIECE):
        piece = carried + body[start : start + _PIECE]
        carried = b"\\" if (len(piece) - len(piece.rstrip(b"\\"))) % 2 else b""
        piece = piece.removesuffix(carried).replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        outside = b"".join(parts[is_text::2])
        n_lists += outside.count(b"[") + outside.count(b"{")
        n_values += outside.count(b",")
        n_quotes += len(parts) - 1
        is_text = bool(n_quotes % 2)
        if n_lists > most_lists or max(n_values, n_quotes // 2) > most_values:
            return False
    return True


async def _read_body(receive: Receive) -> bytes:
    """Return the whole body of a request."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HTTPException(400, "The body was cut off.")
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read to the next who asks for it."""
    is_read = False

    async def receive_again() -> Message:
        nonlocal is_read
        if is_read:
            return await receive()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again
