"""Every request is measured, and logged."""

from __future__ import annotations

from time import perf_counter

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openworld.service.metrics import Metrics

_log = structlog.get_logger("openworld.requests")
_OFTEN = ("/v1/recognize", "/health", "/ready", "/metrics", "/static")


class Watch:
    """Counts requests by route, and logs them, except those of programs, which come by the thousand."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = perf_counter(), 500

        async def send_watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_watched)
        finally:
            self._done(scope, status, perf_counter() - started)

    def _done(self, scope: Scope, status: int, seconds: float) -> None:
        # A request that no route took, or the client's own path, must not make a metric of its own.
        route = getattr(scope.get("route"), "path", None) or "other"
        self._metrics.requested(scope["method"], route, status, seconds)
        if status < 400 and route.startswith(_OFTEN):
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
