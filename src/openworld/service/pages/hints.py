"""What helps a person who is about to name samples: labels to choose from, and what naming would change."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse

from openworld.service.pages.frame import world_of
from openworld.service.pages.groups import group_of
from openworld.service.pages.people import person
from openworld.service.pages.rendering import render
from openworld.service.results import Near, NotFound, Refused
from openworld.service.schemas import Id
from openworld.service.world import World

_OPTIONS = 9  # as many as there are digits to choose them by
_RECENT = 20  # acts looked at for labels used lately
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
    cluster: Annotated[Id | None, Form()] = None,
    text: Annotated[str | None, Form()] = None,
    like: Annotated[Id | None, Form()] = None,
) -> HTMLResponse:
    """Return labels to choose from and, for the label typed, what would change.

    `chosen` are the selected samples, by commas; where it is empty, the whole group without the strays.
    """
    if not count:
        return render("hints.html", options=[], preview=None, count=0, label=label)
    world = world_of(request)
    ids = _numbers(chosen) or group_of(cluster, text, like).ids(world, _JUDGED, _numbers(without))
    try:
        preview = world.labels.preview(ids[:_JUDGED], label)
    except (NotFound, Refused) as error:
        return render("message.html", message=str(error))
    counts = {info.label: info.count for info in world.classes.all()}
    others = list(counts) if search.strip() else _recent(world, person(request).name, counts)
    return render(
        "hints.html",
        options=_options(preview.nearest, others, search),
        preview=preview if label.strip() else None,
        learnt_from=counts.get(preview.label, 0),
        taken_for=_taken_for(world, ids[:_JUDGED]),
        count=count,
        label=label,
    )


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part.isascii() and part.isdigit() and len(part) < 10]


def _options(nearest: Sequence[Near], labels: Sequence[str], search: str) -> list[Option]:
    """Return the nearest classes, then others with the search in their names: what begins with it first."""
    wanted = search.strip().casefold()
    near = [Option(n.label, n.distance) for n in nearest if wanted in n.label.casefold()]
    named = {option.label for option in near}
    others = sorted(
        (label for label in labels if wanted in label.casefold() and label not in named),
        key=lambda label: (not label.casefold().startswith(wanted), label.casefold()),
    )
    return [*near, *(Option(label, None) for label in others)][:_OPTIONS]


def _recent(world: World, who: str, known: Container[str]) -> list[str]:
    """Return the labels that the person gave last, and that are still known."""
    labels = [event.payload.get("label") for event in world.history.events(limit=_RECENT, who=who)]
    return [label for label in dict.fromkeys(labels) if isinstance(label, str) and label in known]


def _taken_for(world: World, ids: Sequence[int]) -> str | None:
    """Return the class that the middle of the samples is recognized as, if any."""
    middle = world.pool.features(ids).mean(axis=0, keepdims=True, dtype=np.float64)
    return world.recognize(middle, remember=False).labels[0]
