"""The history: who did what, with undo and redo of each act."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse

from openworld.service.history import UNDOABLE
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
    events = world_of(request).history(before, _AT_ONCE, who)
    return {
        "mine": mine,
        "acts": [(event, _words(event)) for event in events],
        "undoable": UNDOABLE,
        "before": events[-1].id if len(events) == _AT_ONCE else None,
    }


def _words(event: Event) -> str:
    """Say what an act did."""
    act = event.payload
    n = len(act.get("samples", ()))
    match event.kind:
        case "label" | "accept":
            extra = ", wrongly rejected" if event.kind == "accept" else ""
            return f"labelled {n} as “{act['label']}”{extra}"
        case "learn":
            names = sorted(set(act["labels"]))
            return f"taught {n} of {', '.join(f'“{name}”' for name in names[:5])}{', …' * (len(names) > 5)}"
        case "dismiss":
            return f"dismissed {n}" + (f": {act['reason']}" if act["reason"] else "")
        case "rename":
            return f"renamed “{act['old']}” to “{act['new']}”"
        case "merge":
            return f"merged {', '.join(f'“{label}”' for label in act['labels'])} into “{act['into']}”"
        case "forget":
            return f"forgot “{act['label']}”"
        case "describe":
            return f"described “{act['label']}”"
        case "merge_clusters":
            return f"merged {len(act['moved']) + 1} clusters into cluster {act['into']}"
        case "split_cluster":
            return f"split cluster {next(iter(act['moved']))}: a new cluster {act['into']}"
        case "activate":
            return f"went back to version {act['version']}"
        case "undo":
            return f"undid act {event.undoes}"
        case _:
            return f"{event.kind} {act.get('of', '')}"


@router.get("/last-acts")
def last_acts(request: Request) -> JSONResponse:
    """Return which act of the person undo and redo are about now, by name so that retrying is harmless."""
    return JSONResponse(_last(world_of(request), person(request).name))


def _last(world: World, who: str) -> dict[str, int | None]:
    events = world.history(limit=_LOOKED_AT, who=who)
    acts = [event for event in events if event.kind != "redo"]
    undo = next((e.id for e in acts if e.kind in UNDOABLE and e.undone_by is None), None)
    open_undos = [e for e in acts if e.kind != "undo" or e.undone_by is None]
    redo = open_undos[0].id if open_undos and open_undos[0].kind == "undo" else None
    return {"undo": undo, "redo": redo}
