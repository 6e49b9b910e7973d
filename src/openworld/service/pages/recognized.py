"""What was recognized: by class, least certain first, to review and correct."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from openworld.service.pages.page import page, render, world_of
from openworld.service.world import World
from openworld.store.records import PoolFilter

_CARDS = 48
_PREVIEWED = 6

router = APIRouter()


@router.get("/recognized")
def recognized(request: Request) -> HTMLResponse:
    """Show the classes with recognized samples that were kept, and how often they are right."""
    world = world_of(request)
    overall, *_ = world.recognized.quality()
    return page(request, "recognized.html", quality=overall, **_cards(world, 0))


@router.get("/recognized/cards")
def cards(request: Request, start: Annotated[int, Query(ge=0, le=10**6)]) -> HTMLResponse:
    """Return more cards of the list."""
    return render("recognized_cards.html", **_cards(world_of(request), start))


def _cards(world: World, start: int) -> dict[str, Any]:
    counts = world.recognized.counts()
    quality = {one.label: one for one in world.recognized.quality()}
    end = start + _CARDS
    rows = []
    for label in list(counts)[start:end]:
        where = PoolFilter(state="recognized", answer=label, least_certain_first=True)
        rows.append(
            (label, counts[label], quality.get(label), world.pool.page(where, limit=_PREVIEWED).samples)
        )
    return {
        "cards": rows,
        "total": sum(counts.values()),
        "n_classes": len(counts),
        "next_start": end if end < len(counts) else None,
    }
