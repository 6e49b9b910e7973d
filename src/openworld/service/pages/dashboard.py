"""The dashboard: how recognition does over time, the operating point, versions and exports."""

from __future__ import annotations

from time import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from openworld.service.pages import charts
from openworld.service.pages.data import EXPORTS
from openworld.service.pages.page import page, person, render, world_of
from openworld.service.schemas import Id
from openworld.service.state import get_state
from openworld.service.validation import Conflict, NotFound, Refused

_VERSIONS = 20
_RANGES = {600: "10 minutes", 1800: "30 minutes", 3600: "1 hour", 21600: "6 hours"}

router = APIRouter()
Range = Annotated[int, Query(alias="range", ge=60, le=21600)]


@router.get("/dashboard")
def dashboard(request: Request, seconds: Range = 1800) -> HTMLResponse:
    """Show how the service does."""
    point = world_of(request).operating_point.get()
    kind, _, share = (point.objective or "error").partition("=")
    return page(
        request,
        "dashboard.html",
        ranges=_RANGES,
        exports=EXPORTS,
        point=point,
        point_kind=kind,
        point_share=round(100 * float(share or 0.95)),
        **_figures(request, seconds),
    )


@router.get("/dashboard/figures")
def figures(request: Request, seconds: Range = 1800) -> HTMLResponse:
    """Return the part that changes."""
    world, me = world_of(request), person(request)
    return render(
        "figures.html",
        me=me,
        version=world.model.version,
        progress=world.labels.progress(me.name),
        **_figures(request, seconds),
    )


@router.get("/dashboard/operating-point")
def operating_point(
    request: Request,
    kind: Literal["error", "recall", "far", "f1"],
    share: Annotated[int, Query(ge=0, le=100)] = 95,
) -> HTMLResponse:
    """Return what another objective would change."""
    objective = kind if kind == "error" else f"{kind}={share / 100:g}"
    try:
        point = world_of(request).operating_point.get(objective)
    except (Refused, Conflict) as error:
        return render("message.html", message=str(error))
    return render("operating_point.html", point=point, preview=point.preview, me=person(request))


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


def _figures(request: Request, seconds: int) -> dict[str, Any]:
    state = get_state(request)
    periods = [p for p in state.metrics.periods(21600 // 10) if p.at >= time() - seconds]
    columns = charts.columns(periods, time(), seconds)
    slowest = charts.line([charts.largest(c, lambda p: 1e3 * p.recognition_p99) for c in columns])
    counts = [float(sum(p.samples for p in column)) for column in columns]
    return {
        "range": seconds,
        "range_name": _RANGES.get(seconds, f"{seconds} seconds"),
        "share": charts.line([charts.share_of_unknown(column) for column in columns], top=1.0),
        "share_now": charts.share_of_unknown(periods),
        "median": charts.line(
            [charts.largest(c, lambda p: 1e3 * p.recognition_p50) for c in columns], slowest.top
        ),
        "slowest": slowest,
        "rate": charts.line([60 * count * len(columns) / seconds for count in counts]),
        "n_samples": sum(period.samples for period in periods),
        "n_requests": sum(period.requests for period in periods),
        "n_failed": sum(period.failed for period in periods),
        "n_classes": len(state.world.classes.all()),
        "drift": state.metrics.drift(),
        "quality": state.world.recognized.quality()[0],
        "versions": state.world.history.versions(limit=_VERSIONS),
        "width": charts.WIDTH,
        "height": charts.HEIGHT,
    }
