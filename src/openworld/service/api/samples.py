"""The pool of the unknown, and single samples."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from openworld.service.api.errors import errors
from openworld.service.auth.authorization import Viewer
from openworld.service.inputs import media_type
from openworld.service.results import PoolFilter, Sample, State
from openworld.service.schemas import Id, SamplePage, SimilarSample
from openworld.service.state import Service

router = APIRouter(prefix="/v1", tags=["pool"], responses=errors(401, 403, 422, 429))

SampleId = Annotated[Id, Path(description="The id of a sample.")]


@router.get("/pool")
def pool(
    service: Service,
    _: Viewer,
    state: Annotated[State | None, Query(description="Which samples; `all=true` for any.")] = "pending",
    every: Annotated[bool, Query(alias="all", description="Samples in any state.")] = False,
    cluster: Annotated[Id | None, Query(description="Members of a cluster, doubtful ones last.")] = None,
    clustered: Annotated[bool | None, Query(description="In some cluster, or in none.")] = None,
    nearest: Annotated[str | None, Query(description="The nearest class.")] = None,
    label: Annotated[str | None, Query(description="The label a person gave.")] = None,
    source: Annotated[str | None, Query(description="Where the sample is from.")] = None,
    text: Annotated[str | None, Query(description="A part of text or source.")] = None,
    since: datetime | None = None,
    until: datetime | None = None,
    newest_first: bool = False,
    after: Annotated[str | None, Query(max_length=100, description="The `next` of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> SamplePage:
    """List samples, a page at a time; a page costs the same anywhere in the list."""
    where = PoolFilter(
        None if every else state, cluster, clustered, nearest, label, source, text, since, until, newest_first
    )
    page = service.world.pool.page(where, after, limit)
    return SamplePage(samples=page.samples, next=page.next)


@router.get("/samples/{sample_id}", responses=errors(404))
def sample(sample_id: SampleId, service: Service, _: Viewer) -> Sample:
    """Return one sample."""
    return service.world.pool.get(sample_id)


@router.get("/samples/{sample_id}/similar", responses=errors(404))
def similar(
    sample_id: SampleId, service: Service, _: Viewer, n: Annotated[int, Query(ge=1, le=500)] = 20
) -> list[SimilarSample]:
    """List the pending samples nearest to one."""
    found = service.world.pool.similar(sample_id, n)
    return [SimilarSample(sample=sample, distance=distance) for sample, distance in found]


@router.get(
    "/samples/{sample_id}/thumbnail",
    response_class=Response,
    responses={200: {"content": {"image/*": {}}}, 304: {"description": "Not modified"}, **errors(404)},
)
def thumbnail(sample_id: SampleId, service: Service, _: Viewer, request: Request) -> Response:
    """Return the small picture of a sample."""
    data = service.world.pool.thumbnail(sample_id)
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, max-age=86400"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=media_type(data), headers=headers)
