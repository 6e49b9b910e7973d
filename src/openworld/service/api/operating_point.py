"""The operating point: how strictly the model rejects."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from openworld.service.api.errors import errors
from openworld.service.api.idempotency import Idempotent
from openworld.service.auth.authorization import Admin, Viewer
from openworld.service.event_log import EventOutcome
from openworld.service.quality import OperatingPoint
from openworld.service.schemas import ObjectiveBody, ObjectiveText
from openworld.service.state import Service

router = APIRouter(
    prefix="/v1/operating-point", tags=["operating point"], responses=errors(401, 403, 409, 422, 429)
)


@router.get("")
def operating_point(
    service: Service,
    _: Viewer,
    preview: Annotated[
        ObjectiveText | None, Query(description="An objective: tell what it would change.")
    ] = None,
) -> OperatingPoint:
    """Return the operating point in force; with an objective as `preview`, also what that would change."""
    return service.world.operating_point.get(preview)


@router.patch("")
def move_operating_point(
    body: ObjectiveBody, service: Service, person: Admin, request: Idempotent
) -> EventOutcome:
    """Move the operating point, as an event that can be undone."""
    return request.append(person, lambda: service.world.operating_point.move(body.objective, person.name))
