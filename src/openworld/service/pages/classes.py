"""The known classes: looking at them, correcting them, and reviewing what was recognized as them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi.responses import HTMLResponse

from openworld.service.classes import ClassInfo
from openworld.service.pages.page import page, person, render, world_of
from openworld.service.validation import NotFound
from openworld.service.world import World
from openworld.store.records import PoolFilter, Sample

_CARDS = 48
_EXAMPLES = 5

router = APIRouter()
Search = Annotated[str, Query(max_length=200)]
_PREVIEWED = 6


@router.get("/classes")
def classes(request: Request, search: Search = "") -> HTMLResponse:
    """Show the classes by name."""
    world = world_of(request)
    return page(request, "classes.html", **_class_cards(world, search, 0))


@router.get("/classes/cards")
def class_cards(
    request: Request, search: Search = "", start: Annotated[int, Query(ge=0, le=10**7)] = 0
) -> HTMLResponse:
    """Return more cards of the list."""
    return render("class_cards.html", **_class_cards(world_of(request), search, start))


def _class_cards(world: World, search: str, start: int) -> dict[str, Any]:
    wanted = search.casefold().strip()
    labels = [info.label for info in world.classes.all() if wanted in info.label.casefold()]
    end = start + _CARDS
    return {
        "search": search,
        "total": len(labels),
        "classes": [_class(world, label, _EXAMPLES) for label in labels[start:end]],
        "kept": {label: kept_examples(world, label) for label in labels[start:end]},
        "next_start": end if end < len(labels) else None,
    }


def kept_examples(world: World, label: str) -> list[str | None]:
    """Return the examples that the model keeps of a class: a text, or None for a picture."""
    return [
        None if is_picture(one) else one.decode(errors="replace") for one in world.classes.examples(label)
    ]


def _class(world: World, label: str, n_examples: int) -> tuple[ClassInfo, list[Sample]]:
    examples = world.pool.page(PoolFilter(state="labeled", label=label), limit=n_examples).samples
    if not examples and not world.classes.examples(label):  # what was recognized as it shows what it is
        recognized = PoolFilter(state="recognized", answer=label, newest_first=True)
        examples = world.pool.page(recognized, limit=n_examples).samples
    return world.classes.get(label, 1), examples


@router.get("/classes/example")
def example(request: Request, label: Annotated[str, Query(max_length=200)], n: int) -> Response:
    """Send one of the pictures of a class that the model keeps."""
    kept = world_of(request).classes.examples(label)
    if not 0 <= n < len(kept) or not is_picture(kept[n]):
        raise HTTPException(404, "The model keeps no such example.")
    return Response(kept[n], 200, {"Cache-Control": "private, max-age=3600"}, "image/jpeg")


def is_picture(example: bytes) -> bool:
    """Return whether an example is a JPEG file, not a text."""
    return example.startswith(b"\xff\xd8")


@router.get("/classes/one")
def one(request: Request, label: Annotated[str, Query(max_length=200)]) -> HTMLResponse:
    """Return the details of a class, with the forms that change it."""
    world = world_of(request)
    try:
        info, samples = _class(world, label, 24)
    except NotFound as error:
        return render("message.html", message=str(error))
    others = [other.label for other in world.classes.all() if other.label != label]
    return render(
        "class.html",
        info=info,
        samples=samples,
        kept=kept_examples(world, label),
        similar=world.classes.similar(label),
        others=others[:5000],
        admin=person(request).may("admin"),
    )


# -- what was recognized --------------------------------------------------------------------------


@router.get("/recognized")
def recognized(request: Request) -> HTMLResponse:
    """Show the classes with recognized samples that were kept, and how often they are right."""
    world = world_of(request)
    overall, *_ = world.recognized.quality()
    n_random = world.pool.count(PoolFilter(state="recognized", random=True))
    return page(request, "recognized.html", quality=overall, n_random=n_random, **_recognized_cards(world, 0))


@router.get("/recognized/cards")
def recognized_cards(request: Request, start: Annotated[int, Query(ge=0, le=10**6)]) -> HTMLResponse:
    """Return more cards of the list."""
    return render("recognized_cards.html", **_recognized_cards(world_of(request), start))


def _recognized_cards(world: World, start: int) -> dict[str, Any]:
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
