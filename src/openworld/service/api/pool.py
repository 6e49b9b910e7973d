"""The unknown pool: its samples and its clusters."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from openworld.service.api.errors import errors
from openworld.service.dependencies import Idempotent, Labeler, Service, Viewer
from openworld.service.inputs import media_type
from openworld.service.pool import Order
from openworld.service.schemas import (
    ClusterList,
    GranularityBody,
    Id,
    MergeClustersBody,
    PoolPlaces,
    SamplePage,
    SimilarSample,
    SplitBody,
)
from openworld.service.world_event import EventOutcome
from openworld.store.records import PoolCluster, PoolFilter, Sample, SampleState

# Whole prefixes here: metrics are by the path of the innermost route.
router = APIRouter(responses=errors(401, 403, 422, 429))
samples_router = APIRouter(prefix="/v1", tags=["pool"])
clusters_router = APIRouter(prefix="/v1/clusters", tags=["clusters"])

SampleId = Annotated[Id, Path(description="The id of a sample.")]
ClusterId = Annotated[Id, Path(description="The id of a cluster.")]


@samples_router.get("/pool")
def pool(
    service: Service,
    _: Viewer,
    state: Annotated[SampleState | None, Query(description="Which samples; `all=true` for any.")] = "pending",
    every: Annotated[bool, Query(alias="all", description="Samples in any state.")] = False,
    cluster: Annotated[Id | None, Query(description="Members of a cluster, outliers last.")] = None,
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


@samples_router.get("/samples/{sample_id:int}", responses=errors(404))
def sample(sample_id: SampleId, service: Service, _: Viewer) -> Sample:
    """Return one sample."""
    return service.world.pool.get(sample_id)


@samples_router.get("/samples/{sample_id:int}/similar", responses=errors(404))
def similar_samples(
    sample_id: SampleId, service: Service, _: Viewer, n: Annotated[int, Query(ge=1, le=500)] = 20
) -> list[SimilarSample]:
    """List the pending samples nearest to one."""
    found = service.world.pool.similar(sample_id, n)
    return [SimilarSample(sample=sample, distance=distance) for sample, distance in found]


_PICTURE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/*": {}}},
    304: {"description": "Not modified"},
    **errors(404),
}


@samples_router.get("/samples/{sample_id:int}/thumbnail", response_class=Response, responses=_PICTURE)
def thumbnail(sample_id: SampleId, service: Service, _: Viewer, request: Request) -> Response:
    """Return the small picture of a sample."""
    return _picture(service.world.pool.thumbnail(sample_id), request)


@samples_router.get("/samples/{sample_id:int}/preview", response_class=Response, responses=_PICTURE)
def sample_preview(sample_id: SampleId, service: Service, _: Viewer, request: Request) -> Response:
    """Return the picture of a sample, as large as it is stored (`preview_side`)."""
    return _picture(service.world.pool.preview(sample_id), request)


def _picture(data: bytes, request: Request) -> Response:
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, max-age=86400"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=media_type(data), headers=headers)


# -- clusters -------------------------------------------------------------------------------------


@clusters_router.get("")
def clusters(
    service: Service,
    _: Viewer,
    order: Annotated[
        Order, Query(description="Expected gain, least pure, or least like known classes first.")
    ] = "gain",
) -> ClusterList:
    """List the clusters in the order to look at them."""
    state = service.clustering.state
    return ClusterList(
        clusters=service.world.clusters.all(order),
        running=state.running,
        done=state.done,
        total=state.total,
        unclustered=service.world.pool.count(PoolFilter(clustered=False)),
        finer=service.clustering.finer,
    )


@clusters_router.get("/map")
def pool_map(service: Service, _: Viewer) -> PoolPlaces:
    """Return where the pending samples stand on a map in two dimensions, from the last clustering."""
    places = service.clustering.places()
    ids = list(places)
    return PoolPlaces(
        ids=ids,
        x=[places[i][0] for i in ids],
        y=[places[i][1] for i in ids],
        cluster=[places[i][2] for i in ids],
    )


@clusters_router.post("/merge", responses=errors(404, 409))
def merge_clusters(
    body: MergeClustersBody, service: Service, person: Labeler, request: Idempotent
) -> EventOutcome:
    """Merge clusters."""
    return request.append(person, lambda: service.world.clusters.merge(body.cluster_ids, person.name))


@clusters_router.post("/refresh", status_code=202)
def refresh_clusters(service: Service, _: Labeler) -> dict[str, str]:
    """Cluster the pool again, in the background."""
    service.clustering.refresh()
    return {"status": "accepted"}


@clusters_router.post("/granularity", status_code=202)
def granularity(body: GranularityBody, service: Service, _: Labeler) -> dict[str, str]:
    """Make the clusters finer or coarser: cluster the pool again, in the background."""
    service.clustering.set_finer(body.finer)
    return {"status": "accepted"}


@clusters_router.get("/{cluster_id:int}", responses=errors(404))
def cluster(cluster_id: ClusterId, service: Service, _: Viewer) -> PoolCluster:
    """Return one cluster; its samples are at /v1/pool?cluster=ID."""
    return service.world.clusters.get(cluster_id)


@clusters_router.post("/{cluster_id:int}/lease", responses=errors(404, 409))
def lease_cluster(cluster_id: ClusterId, service: Service, person: Labeler) -> PoolCluster:
    """Lease a cluster, or renew the lease, so that nobody else works on it."""
    return service.world.clusters.lease(cluster_id, person.name)


@clusters_router.delete("/{cluster_id:int}/lease", status_code=204, response_class=Response)
def release_cluster(cluster_id: ClusterId, service: Service, person: Labeler) -> None:
    """End the lease of a cluster."""
    service.world.clusters.release(cluster_id, person.name)


@clusters_router.post("/{cluster_id:int}/split", responses=errors(404, 409))
def split_cluster(
    cluster_id: ClusterId, body: SplitBody, service: Service, person: Labeler, request: Idempotent
) -> EventOutcome:
    """Move some samples of a cluster to a new one: those given, or the part that differs most."""

    def chosen() -> list[int]:
        if body.sample_ids is not None:
            return body.sample_ids
        _, *others = service.clustering.parts(cluster_id)
        return [sample_id for part in others for sample_id in part]

    return request.append(person, lambda: service.world.clusters.split(cluster_id, chosen(), person.name))


router.include_router(samples_router)
router.include_router(clusters_router)
