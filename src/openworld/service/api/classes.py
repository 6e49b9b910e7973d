"""The known classes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query

from openworld.service.api.errors import errors
from openworld.service.api.idempotency import Idempotent
from openworld.service.auth.authorization import Admin, Labeler, Viewer
from openworld.service.classes import ClassInfo
from openworld.service.event_log import EventOutcome
from openworld.service.schemas import ClassBody, MergeClassesBody
from openworld.service.state import Service
from openworld.service.validation import Refused, check_name

router = APIRouter(prefix="/v1/classes", tags=["classes"], responses=errors(401, 403, 422, 429))


async def _name_of(
    label: Annotated[str, Path(max_length=400, description="The name of a class.")],
    name: Annotated[
        str | None,
        Query(max_length=400, description="In place of the name in the path, which cannot be . or .."),
    ] = None,
) -> str:
    return label if name is None else name


ClassLabel = Annotated[str, Depends(_name_of)]


@router.get("")
def classes(
    service: Service,
    _: Viewer,
    search: Annotated[str, Query(max_length=200, description="A part of the name, whatever the case.")] = "",
    limit: Annotated[int, Query(ge=1, le=100_000)] = 1000,
) -> list[ClassInfo]:
    """List the classes by name; those that begin with the search come first."""
    wanted = search.casefold().strip()
    found = [info for info in service.world.classes.all() if wanted in info.label.casefold()]
    if wanted:
        found.sort(key=lambda info: not info.label.casefold().startswith(wanted))
    return found[:limit]


@router.post("/merge", responses=errors(404, 409))
def merge_classes(
    body: MergeClassesBody, service: Service, person: Labeler, request: Idempotent
) -> EventOutcome:
    """Make one class of several; `into` is a class that exists."""
    return request.append(person, lambda: service.world.classes.merge(body.labels, body.into, person.name))


@router.get("/{label:path}", responses=errors(404))
def class_info(
    label: ClassLabel, service: Service, _: Viewer, examples: Annotated[int, Query(ge=0, le=1000)] = 12
) -> ClassInfo:
    """Return a class with its nearest other class and some examples."""
    return service.world.classes.get(label, examples)


@router.patch("/{label:path}", responses=errors(404, 409))
def change_class(
    label: ClassLabel, body: ClassBody, service: Service, person: Labeler, request: Idempotent
) -> list[EventOutcome]:
    """Rename or describe a class, or both; each is an event that can be undone."""
    if body.label is None and body.description is None:
        raise Refused("Give a label, a description, or both.")
    world, new, text, who = service.world, body.label or "", body.description or "", person.name
    outcomes, name = [], label
    if body.label is not None and check_name(new) != label:
        outcomes.append(request.append(person, lambda: world.classes.rename(label, new, who)))
        name = check_name(new)
    if body.description is not None:
        outcomes.append(request.append(person, lambda: world.classes.describe(name, text, who)))
    return outcomes


@router.delete("/{label:path}", responses=errors(404, 409))
def forget_class(label: ClassLabel, service: Service, person: Admin, request: Idempotent) -> EventOutcome:
    """Forget a class; its stored samples return to the pool."""
    return request.append(person, lambda: service.world.classes.forget(label, person.name))
