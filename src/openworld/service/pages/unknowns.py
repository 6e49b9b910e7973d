"""The unknown pool: its clusters as cards, and its map."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse

from openworld.service.pages.data import kind_of
from openworld.service.pages.page import numbers, page, person, render, world_of
from openworld.service.pool import Order
from openworld.service.schemas import Id
from openworld.service.state import get_state
from openworld.service.world import World
from openworld.store.records import PoolCluster, PoolFilter

_CARDS = 48
_PREVIEWED = 6

router = APIRouter()


@router.get("/")
def unknowns(request: Request, order: Order = "gain") -> HTMLResponse:
    """Show the clusters of the pool, in the order to look at them."""
    world, clustering = world_of(request), get_state(request).clustering
    clusters = world.clusters.all(order)
    return page(
        request,
        "unknowns.html",
        n_clusters=len(clusters),
        unclustered=world.pool.count(PoolFilter(clustered=False)),
        n_classes=len(world.classes.all()),
        n_features=world.model.n_features,
        kind=kind_of(request),
        finer=clustering.finer,
        has_run=not clustering.state.running and (bool(clusters) or clustering.has_run),
        **_cards(world, clusters, 0, person(request).name, order),
    )


@router.get("/unknowns/cards")
def cards(
    request: Request, start: Annotated[int, Query(ge=0, le=10**6)], order: Order = "gain"
) -> HTMLResponse:
    """Return more cards of the list."""
    world = world_of(request)
    found = world.clusters.all(order)
    return render("cards.html", **_cards(world, found, start, person(request).name, order))


def _cards(world: World, clusters: list[PoolCluster], start: int, me: str, order: Order) -> dict[str, Any]:
    shown = clusters[start : start + _CARDS]
    rows = [(c, world.pool.page(PoolFilter(cluster=c.id), limit=_PREVIEWED).samples) for c in shown]
    end = start + _CARDS
    more = end if end < len(clusters) else None
    return {"cards": rows, "mine": me, "order": order, "next_start": more}


@router.get("/map")
def pool_map(request: Request) -> HTMLResponse:
    """Show the map; the script draws it from the API."""
    return page(request, "map.html")


@router.get("/unknowns/next")
def next_cluster(request: Request, cluster: Id | None = None) -> RedirectResponse:
    """Go to the next cluster that nobody else holds."""
    return RedirectResponse(_next_address(request, cluster, ()), 303, {"Cache-Control": "no-store"})


@router.get("/unknowns/next/address")
def next_address(
    request: Request, cluster: Id | None = None, without: Annotated[str, Query(max_length=1000)] = ""
) -> JSONResponse:
    """Return the address of the next cluster, without some that are being dealt with."""
    return JSONResponse({"address": _next_address(request, cluster, numbers(without))})


def _next_address(request: Request, cluster: int | None, without: Container[int]) -> str:
    clusters = [c for c in world_of(request).clusters.all() if c.id == cluster or c.id not in without]
    found = next_free(clusters, cluster or 0, person(request).name)
    return f"/unknowns/group?cluster={found.id}" if found else "/"


def next_free(clusters: Sequence[PoolCluster], cluster_id: int, who: str | None) -> PoolCluster | None:
    """Return the next cluster of a circular list that nobody else holds."""
    places = {cluster.id: place for place, cluster in enumerate(clusters)}
    start = places.get(cluster_id, -1) + 1
    for cluster in (*clusters[start:], *clusters[:start]):
        if cluster.id != cluster_id and cluster.holder in (None, who):
            return cluster
    return None


@router.get("/unknowns/merging")
def merging(request: Request, cluster: Id) -> HTMLResponse:
    """Return the clusters that one can be merged with."""
    world, me = world_of(request), person(request).name
    others = [c for c in world.clusters.all() if c.id != cluster and c.holder in (None, me)][:_CARDS]
    samples = [(c, world.pool.page(PoolFilter(cluster=c.id), limit=1).samples) for c in others]
    return render("merging.html", cluster=cluster, others=samples)
