"""Notifications as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from time import monotonic

from fastapi import APIRouter, HTTPException, Request
from starlette.responses import StreamingResponse

from openworld.service.api.errors import errors
from openworld.service.auth.authorization import Viewer
from openworld.service.notifications import Notification
from openworld.service.state import Service, ServiceState

router = APIRouter(prefix="/v1", tags=["events"], responses=errors(401, 403, 429))

HEARTBEAT_SECONDS = 15.0


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(request: Request, service: Service, _: Viewer) -> StreamingResponse:
    """Stream what happens: act, rescored, clusters, clustering, lease, unknown; each with data in JSON."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_stream(service, request), media_type="text/event-stream", headers=headers)


async def _stream(service: ServiceState, request: Request) -> AsyncIterator[bytes]:
    """Yield events until the key is revoked or the session ends, which is seen at the next heartbeat."""
    async with service.broadcast.listening() as listener:
        yield b"retry: 2000\n: hello\n\n"
        due = monotonic() + HEARTBEAT_SECONDS
        while True:
            try:
                notification = await asyncio.wait_for(listener.get(), max(0.0, due - monotonic()))
            except TimeoutError:
                try:
                    await service.auth.authenticate(request)
                except HTTPException:
                    return
                yield b": still here\n\n"
                due = monotonic() + HEARTBEAT_SECONDS
                continue
            if notification is None:
                return
            yield as_event(notification)


def as_event(notification: Notification) -> bytes:
    """Return a notification as a server-sent event."""
    data = json.dumps(dict(notification.data))
    return f"id: {notification.id}\nevent: {notification.kind}\ndata: {data}\n\n".encode()
