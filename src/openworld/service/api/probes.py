"""Whether the service works, and how well."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Response
from prometheus_client import CONTENT_TYPE_LATEST

from openworld.service.api.errors import errors
from openworld.service.auth.authorization import Viewer
from openworld.service.schemas import PeriodInfo, Status
from openworld.service.state import Service
from openworld.store import StorageError

router = APIRouter(tags=["probes"])


@router.get("/health", responses=errors())
async def health() -> Status:
    """Answer as long as the process lives."""
    return Status()


@router.get("/ready", responses=errors(503))
def ready(service: Service) -> Status:
    """Answer when requests can be served: the model is there and the database answers."""
    try:
        service.world.check()
    except StorageError as error:
        raise HTTPException(503, str(error)) from error
    except Exception as error:
        raise HTTPException(503, "The database does not answer.") from error
    return Status(model_version=service.world.model.version)


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}, **errors(401, 403, 429)},
)
def metrics(service: Service, _: Viewer) -> Response:
    """Return measurements for Prometheus."""
    return Response(service.metrics.exposition(), headers={"Content-Type": CONTENT_TYPE_LATEST})


@router.get("/v1/statistics", responses=errors(401, 403, 422, 429))
def statistics(
    service: Service,
    _: Viewer,
    periods: Annotated[int, Query(ge=1, le=2160, description="Of ten seconds each.")] = 360,
) -> list[PeriodInfo]:
    """Return share of unknown, latency and version over time, oldest first."""
    return [PeriodInfo.model_validate(period) for period in service.metrics.periods(periods)]
