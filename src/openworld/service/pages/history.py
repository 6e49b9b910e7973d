"""The history: who did what, with undo and redo of each event."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse

from openworld.service.events import UNDOABLE_KINDS, event_of
from openworld.service.history import HistoryEvent
from openworld.service.pages.page import page, person, render, world_of
from openworld.service.schemas import Id

_AT_ONCE = 50

router = APIRouter()


@router.get("/history")
def history(request: Request, mine: bool = False) -> HTMLResponse:
    """Show the events, newest first."""
    return page(request, "history.html", **_events(request, mine, None))


@router.get("/history/events")
def events(request: Request, before: Id, mine: bool = False) -> HTMLResponse:
    """Return older events."""
    return render("events.html", me=person(request), **_events(request, mine, before))


def _events(request: Request, mine: bool, before: int | None) -> dict[str, Any]:
    who = person(request).name if mine else None
    found = world_of(request).history.events(before, _AT_ONCE, who)
    return {
        "mine": mine,
        "events": [(event, _words(event)) for event in found],
        "undoable": UNDOABLE_KINDS,
        "before": found[-1].id if len(found) == _AT_ONCE else None,
    }


def _words(event: HistoryEvent) -> str:
    """Say what an event did."""
    of = f" (event {event.undoes})" if event.undoes is not None else ""
    return event_of(event.kind, event.payload).describe() + of


@router.get("/history/last")
def last(request: Request) -> JSONResponse:
    """Return the events that undo and redo would take now: named by id, a request may be sent twice."""
    history, who = world_of(request).history, person(request).name
    return JSONResponse({"undo": history.next_to_undo(who), "redo": history.next_to_redo(who)})
