"""Clusters of the pool: looking at them, holding them, changing them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from openworld.service.api.errors import errors
from openworld.service.api.idempotency import Idempotent
from openworld.service.auth.authorization import Labeller, Viewer
from openworld.service.results import Cluster, Outcome, PoolFilter
from openworld.service.schemas import ClusterList, Id, MergeClustersBody, PoolPlaces, SplitBody
from openworld.service.state import Service

router = APIRouter(prefix="/v1/clusters", tags=["clusters"], responses=errors(401, 403, 422, 429))

ClusterId = Annotated[Id, Path(description="The id of a cluster.")]


@router.get("")
def clusters(service: Service, _: Viewer) -> ClusterList:
    """List the clusters, largest first."""
    state = service.clustering.state
    return ClusterList(
        clusters=service.world.clusters.all(),
        running=state.running,
        done=state.done,
        total=state.total,
        unclustered=service.world.pool.count(PoolFilter(clustered=False)),
    )


@router.get("/map")
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


@router.post("/merge", responses=errors(404, 409))
def merge(body: MergeClustersBody, service: Service, person: Labeller, request: Idempotent) -> Outcome:
    """Make one cluster of several."""
    return request.append(person, lambda: service.world.clusters.merge(body.cluster_ids, person.name))


@router.post("/refresh", status_code=202)
def refresh(service: Service, _: Labeller) -> dict[str, str]:
    """Cluster the pool anew, in the background."""
    service.clustering.refresh()
    return {"status": "accepted"}


@router.get("/{cluster_id}", responses=errors(404))
def cluster(cluster_id: ClusterId, service: Service, _: Viewer) -> Cluster:
    """Return one cluster; its samples are at /v1/pool?cluster=ID."""
    return service.world.clusters.get(cluster_id)


@router.post("/{cluster_id}/lease", responses=errors(404, 409))
def lease(cluster_id: ClusterId, service: Service, person: Labeller) -> Cluster:
    """Hold a cluster, or hold it longer, so that nobody else works on it."""
    return service.world.clusters.lease(cluster_id, person.name)


@router.delete("/{cluster_id}/lease", status_code=204, response_class=Response)
def release(cluster_id: ClusterId, service: Service, person: Labeller) -> None:
    """Let go of a cluster."""
    service.world.clusters.release(cluster_id, person.name)


@router.post("/{cluster_id}/split", responses=errors(404, 409))
def split(
    cluster_id: ClusterId, body: SplitBody, service: Service, person: Labeller, request: Idempotent
) -> Outcome:
    """Move some samples of a cluster to a new one."""
    return request.append(
        person, lambda: service.world.clusters.split(cluster_id, body.sample_ids, person.name)
    )
