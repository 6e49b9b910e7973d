"""The dashboard: share of unknown over time, latency, versions."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from openworld.service.pages.charts import HEIGHT, WIDTH, line
from openworld.service.pages.frame import page, world_of
from openworld.service.pages.people import person
from openworld.service.pages.rendering import render
from openworld.service.results import NotFound
from openworld.service.schemas import Id
from openworld.service.state import get_state

_PERIODS = 180
_VERSIONS = 20

router = APIRouter()


@router.get("/dashboard")
def dashboard(request: Request) -> HTMLResponse:
    """Show how the service does."""
    return page(request, "dashboard.html", **_figures(request))


@router.get("/dashboard/figures")
def figures(request: Request) -> HTMLResponse:
    """Return the part that changes."""
    world, me = world_of(request), person(request)
    return render(
        "figures.html",
        me=me,
        version=world.model.version,
        progress=world.labels.progress(me.name),
        **_figures(request),
    )


@router.get("/dashboard/compare")
def compare(request: Request, a: Id, b: Id) -> HTMLResponse:
    """Return how two versions differ."""
    try:
        found = world_of(request).history.compare(a, b)
    except NotFound as error:
        return render("message.html", message=str(error))
    return render("comparison.html", comparison=found)


@router.get("/progress")
def progress(request: Request) -> HTMLResponse:
    """Return the line that tells how far the work is."""
    world, me = world_of(request), person(request)
    return render("progress.html", progress=world.labels.progress(me.name), version=world.model.version)


def _figures(request: Request) -> dict[str, Any]:
    state = get_state(request)
    periods = state.metrics.periods(_PERIODS)
    n_samples = sum(period.samples for period in periods)
    n_unknown = sum(period.unknown for period in periods)
    slowest = line([1e3 * p.latency_p99 if p.latency_p99 else None for p in periods])
    return {
        "share": line([p.unknown / p.samples if p.samples else None for p in periods], top=1.0),
        "share_now": n_unknown / n_samples if n_samples else None,
        "median": line([1e3 * p.latency_p50 if p.latency_p50 else None for p in periods], slowest.top),
        "slowest": slowest,
        "n_samples": n_samples,
        "n_requests": sum(period.requests for period in periods),
        "n_failed": sum(period.failed for period in periods),
        "n_classes": len(state.world.classes.all()),
        "versions": state.world.history.versions(limit=_VERSIONS),
        "width": WIDTH,
        "height": HEIGHT,
    }
