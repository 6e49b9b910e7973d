"""The history: who did what, with undo and redo of each act."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse

from openworld.service.events import UNDOABLE_KINDS, event_of
from openworld.service.pages.frame import page, world_of
from openworld.service.pages.people import person
from openworld.service.pages.rendering import render
from openworld.service.results import Event
from openworld.service.schemas import Id
from openworld.service.world import World

_AT_ONCE = 50
_LOOKED_AT = 200

router = APIRouter()


@router.get("/history")
def history(request: Request, mine: bool = False) -> HTMLResponse:
    """Show the acts, newest first."""
    return page(request, "history.html", **_acts(request, mine, None))


@router.get("/history/acts")
def acts(request: Request, before: Id, mine: bool = False) -> HTMLResponse:
    """Return older acts."""
    return render("acts.html", me=person(request), **_acts(request, mine, before))


def _acts(request: Request, mine: bool, before: int | None) -> dict[str, Any]:
    who = person(request).name if mine else None
    events = world_of(request).history.events(before, _AT_ONCE, who)
    return {
        "mine": mine,
        "acts": [(event, _words(event)) for event in events],
        "undoable": UNDOABLE_KINDS,
        "before": events[-1].id if len(events) == _AT_ONCE else None,
    }


def _words(event: Event) -> str:
    """Say what an event did."""
    of = f" (event {event.undoes})" if event.undoes is not None else ""
    return event_of(event.kind, event.payload).describe() + of


@router.get("/last-acts")
def last_acts(request: Request) -> JSONResponse:
    """Return which act of the person undo and redo are about now, by name so that retrying is harmless."""
    return JSONResponse(_last(world_of(request), person(request).name))


def _last(world: World, who: str) -> dict[str, int | None]:
    events = world.history.events(limit=_LOOKED_AT, who=who)
    acts = [event for event in events if event.kind != "redo"]
    undo = next((e.id for e in acts if e.kind in UNDOABLE_KINDS and e.undone_by is None), None)
    open_undos = [e for e in acts if e.kind != "undo" or e.undone_by is None]
    redo = open_undos[0].id if open_undos and open_undos[0].kind == "undo" else None
    return {"undo": undo, "redo": redo}
