"""Middleware around every request: metrics and log, allowed hosts, requests of other sites, size of the body.

Starlette has middleware for hosts and for body sizes, but answers in plain text that does not say what to
do; here a refusal has the shape of all errors of the API.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import structlog
from fastapi import HTTPException, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openworld.service.api.errors import error_response
from openworld.service.metrics import Metrics

if TYPE_CHECKING:
    from openworld.service.dependencies import ServiceState

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_NOT_LOGGED = ("/v1/recognize", "/health", "/ready", "/metrics", "/static")  # too many


_SAMPLES = ("/v1/recognize", "/v1/learn", "/v1/import", "/try/")  # where samples are sent, which may be large
_SESSION = "/v1/session"
_SESSION_BYTES = 16_000
_OTHER_BYTES = 2_000_000  # 100,000 sample ids
_MOST_IDS = 100_000

_log = structlog.get_logger("openworld.requests")

_CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = [
    (b"content-security-policy", _CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
SMALL_BODY = 1 << 16  # bytes that are parsed quickly, whatever they are


class Observation:
    """Middleware that counts, measures and logs requests."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and record how it ended."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = perf_counter(), 500

        async def send_observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_observed)
        finally:
            self._record(scope, status, perf_counter() - started)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        # By route, not by path: clients could make up any number of paths, each a metric of its own.
        route = getattr(scope.get("route"), "path_format", None) or "other"
        self._metrics.requested(scope["method"], route, status, seconds)
        if status < 400 and route.startswith(_NOT_LOGGED):
            return
        level = "error" if status >= 500 else "warning" if status >= 400 else "info"
        getattr(_log, level)(
            "request",
            method=scope["method"],
            path=scope["path"],
            status=status,
            ms=round(1e3 * seconds, 2),
            client=scope["client"][0] if scope.get("client") else None,
        )


class Protection:
    """Middleware that refuses foreign hosts, requests of other sites and large bodies, and adds headers.

    Parameters
    ----------
    app : ASGI application
    hosts : iterable of str, or None
        Names in the Host header that are allowed; None for any. Without the check, a page of another
        site whose name is made to point to this machine could read everything (DNS rebinding).
    max_body : int
        Bytes.
    """

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str] | None, max_body: int) -> None:
        self._app, self._max_body = app, max_body
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, limited(receive, self._max_body), send_with_headers)
        else:
            await error_response(refusal)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> HTTPException | None:
        headers = dict(scope["headers"])  # Starlette's Headers searches a list for each name
        host = headers.get(b"host", b"").decode("latin-1")
        if self._hosts is not None and _without_port(host) not in self._hosts:
            return HTTPException(
                400, f"The host name {host!r} is not allowed: add it to the setting allowed_hosts."
            )
        if scope["method"] not in _SAFE_METHODS and _is_cross_site(headers, host):
            return HTTPException(403, "Requests from other sites are refused.")
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:  # PostgreSQL cannot store it
            return HTTPException(400, "The address has a NUL character.")
        if (_content_length(headers) or 0) > self._max_body:
            return too_large(self._max_body)
        return None


def _content_length(headers: dict[bytes, bytes]) -> int | None:
    """Return the length of the body according to the headers; None if they have none."""
    digits = headers.get(b"content-length", b"").lstrip(b"0")  # Python refuses to read thousands of digits
    return int(digits) if digits.isdigit() else 0 if b"content-length" in headers else None


def _is_cross_site(headers: dict[bytes, bytes], host: str) -> bool:
    """Return whether the headers of a browser say that another site made the request."""
    if headers.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none"):
        return True
    origin = headers.get(b"origin")
    return origin is not None and _netloc(origin.decode("latin-1")) != host.lower()


def _netloc(origin: str) -> str:
    """Return host and port of an origin; "" if it is not valid, such as "null"."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _without_port(host: str) -> str:
    """Return a Host header without its port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()


def too_large(limit: int) -> HTTPException:
    """Return the error of a body that is too large."""
    return HTTPException(413, f"The body can have at most {limit:,} bytes: send less at a time.")


def limited(receive: Receive, limit: int) -> Receive:
    """Limit the bytes of a body as they arrive, whatever Content-Length says."""
    received = 0

    async def receive_limited() -> Message:
        nonlocal received
        message = await receive()
        if message["type"] == "http.request":
            received += len(message.get("body", b""))
            if received > limit:
                raise too_large(limit)
        return message

    return receive_limited


class RequestBodies:
    """Middleware that refuses a body before it is read, or before it is parsed.

    A client without a key gets 401 before a large body is read. A login has a small body.
    """

    def __init__(self, app: ASGIApp, *, service: ServiceState) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        n_bytes = None if b"transfer-encoding" in headers else _content_length(headers) or 0
        limit = self._limit(scope["path"])
        if n_bytes is not None and n_bytes <= min(limit, SMALL_BODY):
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
        return _replayed(await read_body(receive, self._counter()), receive)

    def _limit(self, path: str) -> int:
        if path.startswith(_SAMPLES):
            return int(self._service.settings.max_body_mb * 1e6)
        return _SESSION_BYTES if path == _SESSION else _OTHER_BYTES

    def _counter(self) -> JsonCounter:
        most = self._service.settings.max_batch
        n_values = max(_MOST_IDS, most * self._service.batcher.n_features) + 4 * most + 100
        return JsonCounter(most + 100, n_values)


async def read_body(receive: Receive, counter: JsonCounter | None = None) -> bytes:
    """Return the whole body of a request; with a counter, refuse it as soon as it is too much to parse.

    Starlette's `Request.body` passes it through a generator, which takes longer than all the rest.
    """
    parts, n_bytes = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise HTTPException(400, "The body was cut off.")
        parts.append(message.get("body", b""))
        n_bytes += len(parts[-1])
        if counter is not None:
            counter.add(parts[-1])
            if n_bytes > SMALL_BODY and not counter.is_bounded:
                raise HTTPException(413, "The body has more lists or values than any valid request.")
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives a body which was already read."""
    is_read = False

    async def receive_again() -> Message:
        nonlocal is_read
        if is_read:
            return await receive()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


class JsonCounter:
    """Counts the lists and values of JSON that comes in pieces.

    Parameters
    ----------
    most_lists, most_values : int
        The most lists and objects together, and the most values, of a body that is allowed.
    """

    def __init__(self, most_lists: int, most_values: int) -> None:
        self._most_lists, self._most_values = most_lists, most_values
        self._n_lists = self._n_values = self._n_quotes = 0
        self._carried = b""

    @property
    def is_bounded(self) -> bool:
        """Whether what came so far is allowed."""
        n_values = max(self._n_values, self._n_quotes // 2)
        return self._n_lists <= self._most_lists and n_values <= self._most_values

    def add(self, data: bytes) -> None:
        """Count the next piece."""
        piece = self._carried + data
        self._carried = b"\\" if (len(piece) - len(piece.rstrip(b"\\"))) % 2 else b""
        piece = piece.removesuffix(self._carried).replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        outside = b"".join(parts[self._n_quotes % 2 :: 2])
        self._n_lists += outside.count(b"[") + outside.count(b"{")
        self._n_values += outside.count(b",")
        self._n_quotes += len(parts) - 1
