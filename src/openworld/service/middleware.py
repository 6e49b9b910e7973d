"""Middleware around every request: metrics and log, allowed hosts, requests of other sites, size of the body.

Starlette has middleware for hosts and for body sizes, but answers in plain text that does not say what to
do; here a refusal has the shape of all errors of the API.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from urllib.parse import urlsplit

import structlog
from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openworld.service.api.errors import error_response
from openworld.service.metrics import Metrics

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_NOT_LOGGED = ("/v1/recognize", "/health", "/ready", "/metrics", "/static")  # they come by the thousand

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
        route = getattr(scope.get("route"), "path", None) or "other"
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
        Names in the Host header that are answered to; None for any. Without the check, a page of another
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
            return HTTPException(400, f"This service is not reached as {host!r}: see allowed_hosts.")
        if scope["method"] not in _SAFE_METHODS and _is_cross_site(headers, host):
            return HTTPException(403, "Requests that other sites make are refused.")
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > self._max_body:
            return too_large(self._max_body)
        return None


def _is_cross_site(headers: dict[bytes, bytes], host: str) -> bool:
    """Tell whether a browser says that another site made the request. Programs say nothing."""
    if headers.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none"):
        return True
    origin = headers.get(b"origin")
    return origin is not None and _netloc(origin.decode("latin-1")) != host.lower()


def _netloc(origin: str) -> str:
    """Return host and port of an origin; "" for what is none, such as "null"."""
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
    return HTTPException(413, f"The body may have {limit:,} bytes at most: send less at a time.")


def limited(receive: Receive, limit: int) -> Receive:
    """Count the bytes of a body as they come, whatever its length was said to be."""
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
