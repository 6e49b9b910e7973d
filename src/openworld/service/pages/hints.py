"""What helps a person who is about to name samples: labels to choose from, and what naming would change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse

from openworld.service.pages.frame import world_of
from openworld.service.pages.groups import group_of
from openworld.service.pages.rendering import render
from openworld.service.results import Near, NotFound
from openworld.service.world import World

_OPTIONS = 9  # as many as there are digits to choose them by
_JUDGED = 500  # samples that stand for a larger selection

router = APIRouter()


@dataclass(frozen=True)
class Option:
    """A label to choose, with its distance where the class is one of the nearest."""

    label: str
    distance: float | None


@router.post("/unknowns/hints")
def hints(
    request: Request,
    label: Annotated[str, Form()] = "",
    search: Annotated[str, Form()] = "",
    chosen: Annotated[str, Form()] = "",
    without: Annotated[str, Form()] = "",
    count: Annotated[int, Form()] = 0,
    cluster: Annotated[int | None, Form()] = None,
    text: Annotated[str | None, Form()] = None,
    like: Annotated[int | None, Form()] = None,
) -> HTMLResponse:
    """Return labels to choose from and, for the label typed, what would change.

    `chosen` are the selected samples, by commas; where it is empty, the whole group without the strays.
    """
    world = world_of(request)
    ids = _numbers(chosen) or group_of(cluster, text, like).ids(world, _JUDGED, _numbers(without))
    if not ids or not count:
        return render("hints.html", options=[], preview=None, count=0, label=label)
    try:
        preview = world.preview(ids[:_JUDGED], label)
    except NotFound as error:
        return render("message.html", message=str(error))
    counts = {info.label: info.count for info in world.classes()}
    return render(
        "hints.html",
        options=_options(preview.nearest, list(counts), search),
        preview=preview if label.strip() else None,
        learnt_from=counts.get(preview.label, 0),
        taken_for=_taken_for(world, ids[:_JUDGED]),
        count=count,
        label=label,
    )


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part.isascii() and part.isdigit()]


def _options(nearest: Sequence[Near], labels: Sequence[str], search: str) -> list[Option]:
    """Return the nearest classes, then others by name: those that begin with the search come first."""
    wanted = search.strip().casefold()
    near = [Option(n.label, n.distance) for n in nearest if wanted in n.label.casefold()]
    named = {option.label for option in near}
    others = sorted(
        (label for label in labels if wanted in label.casefold() and label not in named),
        key=lambda label: (not label.casefold().startswith(wanted), label.casefold()),
    )
    return [*near, *(Option(label, None) for label in others)][:_OPTIONS]


def _taken_for(world: World, ids: Sequence[int]) -> str | None:
    """Return the class that the middle of the samples is recognized as, if any."""
    middle = world.features(ids).mean(axis=0, keepdims=True, dtype=np.float64)
    return world.recognize(middle, remember=False).labels[0]
