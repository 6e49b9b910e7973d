"""The history: events, undo and redo, versions of the model; and notifications of what happens now."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from time import monotonic
from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Query, Request
from starlette.responses import StreamingResponse

from openworld.service.api.errors import errors
from openworld.service.auth import Person
from openworld.service.dependencies import Admin, Idempotent, Labeler, Service, ServiceState, Viewer
from openworld.service.history import HistoryEvent
from openworld.service.notifications import Notification
from openworld.service.rescoring import Rescored
from openworld.service.schemas import CountChange, EventBody, Id, VersionComparison
from openworld.service.world_event import EventOutcome
from openworld.store.records import Version

history_router = APIRouter(prefix="/v1", tags=["history"], responses=errors(401, 403, 422, 429))

VersionId = Annotated[Id, Path(description="The number of a version.")]
events_router = APIRouter(prefix="/v1", tags=["events"], responses=errors(401, 403, 429))

HEARTBEAT_SECONDS = 15.0


@history_router.post("/undo", responses=errors(404, 409))
def undo(body: EventBody, service: Service, person: Labeler, request: Idempotent) -> EventOutcome:
    """Undo an event: by default your last. Only an admin may undo events of others."""
    _check_own(body.event_id, service, person)
    return request.append(person, lambda: service.world.history.undo(person.name, body.event_id))


@history_router.post("/redo", responses=errors(404, 409))
def redo(body: EventBody, service: Service, person: Labeler, request: Idempotent) -> EventOutcome:
    """Redo an undone event: by default the one undone last."""
    _check_own(body.event_id, service, person)
    return request.append(person, lambda: service.world.history.redo(person.name, body.event_id))


def _check_own(event_id: int | None, service: ServiceState, person: Person) -> None:
    if event_id is None or person.may("admin"):
        return
    for event in service.world.history.events(before=event_id + 1, limit=1):
        if event.id == event_id and event.who != person.name:
            raise HTTPException(
                403, f"Event {event_id} is by {event.who}: only an admin may undo or redo it."
            )


@history_router.get("/history")
def history(
    service: Service,
    _: Viewer,
    before: Annotated[Id | None, Query(description="The id of the last event of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    who: Annotated[str | None, Query(max_length=200)] = None,
) -> list[HistoryEvent]:
    """List events, newest first."""
    return service.world.history.events(before, limit, who)


@history_router.get("/versions")
def versions(
    service: Service,
    _: Viewer,
    before: Annotated[Id | None, Query(description="The last version of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> list[Version]:
    """List versions of the model, newest first; the newest is in use."""
    return service.world.history.versions(before, limit)


@history_router.get("/versions/compare", responses=errors(404))
def compare_versions(a: Id, b: Id, service: Service, _: Viewer) -> VersionComparison:
    """Return how version b differs from version a."""
    found = service.world.history.compare(a, b)
    return VersionComparison(
        a=a,
        b=b,
        added=list(found.added),
        removed=list(found.removed),
        changed={label: CountChange(before=x, after=y) for label, (x, y) in found.changed.items()},
        same=found.same,
    )


@history_router.get("/versions/{version}/rescored", responses=errors(404))
def rescored(
    version: VersionId,
    service: Service,
    _: Viewer,
    timeout: Annotated[float, Query(ge=0, le=30, description="Seconds to wait.")] = 0,
) -> Rescored | None:
    """Return what a version, or a later one, changed in the pool; null while that is being computed."""
    return service.world.rescorer.wait(min(version, service.world.model.version), timeout)


@history_router.post("/versions/{version}/activate", responses=errors(404, 409))
def activate_version(
    version: VersionId, service: Service, person: Admin, request: Idempotent
) -> EventOutcome:
    """Roll back to the model of an earlier version, as a new version."""
    return request.append(person, lambda: service.world.history.rollback(version, person.name))


# -- notifications --------------------------------------------------------------------------------


@events_router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(request: Request, service: Service, _: Viewer) -> StreamingResponse:
    """Stream what happens: event, rescored, clusters, clustering, lease, unknown; each with data in JSON."""
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
