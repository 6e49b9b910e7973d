"""The guard in front of every request: host, origin, size of the body, and headers that protect browsers."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openworld.service.api.errors import error_response

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")

CONTENT_SECURITY_POLICY = "; ".join(
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
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class Guard:
    """Lets a request through, or answers it with the reason why not.

    Parameters
    ----------
    app : ASGI application
    hosts : iterable of str, or None
        Names in the Host header that are answered to; None for any. Without the check, a page of another
        site whose name is made to point to this machine could read everything.
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

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await error_response(refusal)(scope, receive, send_protected)
            return
        await self._app(scope, _Limited(receive, self._max_body), send_protected)

    def _refusal(self, scope: Scope) -> HTTPException | None:
        headers = dict(scope["headers"])  # of bytes, found much quicker than by Starlette's Headers
        host = headers.get(b"host", b"").decode("latin-1")
        if self._hosts is not None and _name(host) not in self._hosts:
            return HTTPException(400, f"This service is not reached as {host!r}: see allowed_hosts.")
        if scope["method"] not in SAFE and _is_cross_site(headers, host):
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


def _name(host: str) -> str:
    """Return a Host header without its port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()


def too_large(most: int) -> HTTPException:
    """Return the error on a body that is too large."""
    return HTTPException(413, f"The body may have {most:,} bytes at most: send less at a time.")


class _Limited:
    """Counts the bytes of a body as they come, whatever its length was said to be."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive, self._most, self._so_far = receive, most, 0

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._so_far += len(message.get("body", b""))
            if self._so_far > self._most:
                raise too_large(self._most)
        return message
