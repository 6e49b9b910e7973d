"""The unknown: clusters in a grid, and a workbench where a person names what is in one."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from openworld.service.pages.frame import page, world_of
from openworld.service.pages.groups import Group, after, group_of
from openworld.service.pages.people import person
from openworld.service.pages.rendering import render
from openworld.service.results import Cluster, NotFound, PoolFilter
from openworld.service.schemas import Id
from openworld.service.world import World

_CARDS = 48
_PREVIEWED = 6

router = APIRouter()
OfGroup = Annotated[Group, Depends(group_of)]


@router.get("/")
def unknowns(request: Request) -> HTMLResponse:
    """Show the clusters of the pool, largest first."""
    world = world_of(request)
    clusters = world.clusters.all()
    return page(
        request,
        "unknowns.html",
        n_clusters=len(clusters),
        loose=world.pool.count(PoolFilter(clustered=False)),
        n_classes=len(world.classes.all()),
        n_features=world.model.n_features,
        **_cards(world, clusters, 0, person(request).name),
    )


@router.get("/unknowns/cards")
def cards(request: Request, start: Annotated[int, Query(ge=0, le=10**6)]) -> HTMLResponse:
    """Return more cards of the list."""
    world = world_of(request)
    return render("cards.html", **_cards(world, world.clusters.all(), start, person(request).name))


def _cards(world: World, clusters: list[Cluster], start: int, me: str) -> dict[str, Any]:
    shown = clusters[start : start + _CARDS]
    rows = [(c, world.pool.page(PoolFilter(cluster=c.id), limit=_PREVIEWED).samples) for c in shown]
    end = start + _CARDS
    return {"cards": rows, "mine": me, "next_start": end if end < len(clusters) else None}


@router.get("/unknowns/group")
def workbench(request: Request, group: OfGroup) -> Response:
    """Show the samples of a group, to select and name."""
    world = world_of(request)
    try:
        cluster = world.clusters.get(group.cluster) if group.cluster is not None else None
        samples, more = group.page(world, None)
    except NotFound as error:
        return page(request, "gone.html", 404, message=str(error))
    return page(
        request,
        "workbench.html",
        group=group,
        cluster=cluster,
        samples=samples,
        more=more,
        total=len(samples) if more is None else group.size(world),
    )


@router.get("/unknowns/members")
def members(request: Request, group: OfGroup, after: Annotated[str, Query(max_length=40)]) -> HTMLResponse:
    """Return more tiles of a group."""
    samples, more = group.page(world_of(request), after)
    return render("tiles.html", samples=samples, more=more, group=group)


@router.get("/unknowns/ids")
def ids(request: Request, group: OfGroup) -> JSONResponse:
    """Return the ids of a whole group, for acts that take samples."""
    return JSONResponse(group.ids(world_of(request)))


@router.get("/unknowns/next")
def next_cluster(request: Request, cluster: Id | None = None) -> RedirectResponse:
    """Go to the next cluster that nobody else holds."""
    found = after(world_of(request).clusters.all(), cluster or 0, person(request).name)
    address = f"/unknowns/group?cluster={found.id}" if found else "/"
    return RedirectResponse(address, 303, {"Cache-Control": "no-store"})


@router.get("/unknowns/merging")
def merging(request: Request, cluster: Id) -> HTMLResponse:
    """Return the clusters that one can be merged with."""
    world, me = world_of(request), person(request).name
    others = [c for c in world.clusters.all() if c.id != cluster and c.holder in (None, me)][:_CARDS]
    samples = [(c, world.pool.page(PoolFilter(cluster=c.id), limit=1).samples) for c in others]
    return render("merging.html", cluster=cluster, others=samples)


@router.get("/unknowns/sample/{sample_id}")
def sample(request: Request, sample_id: Id) -> HTMLResponse:
    """Return what is known of one sample, and why it was not recognized."""
    try:
        found = world_of(request).pool.get(sample_id)
    except NotFound as error:
        return render("message.html", 404, message=str(error))
    return render("sample.html", sample=found)
