"""The dashboard: share of unknown samples and latency over time, versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from openworld.service.pages.page import page, person, render, world_of
from openworld.service.results import NotFound
from openworld.service.schemas import Id
from openworld.service.state import get_state

_PERIODS = 180
_VERSIONS = 20
WIDTH, HEIGHT = 600, 120

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


# -- charts ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chart:
    """A line chart as an SVG path, the value at its top, and its last value."""

    path: str
    top: float
    last: float | None


def line(values: Sequence[float | None], top: float | None = None) -> Chart:
    """Return the line through values at equal steps, with a gap where a value is None.

    Parameters
    ----------
    values : sequence of float or None
        Not negative.
    top : float, optional
        The value at the upper edge; by default the largest value.
    """
    present = [value for value in values if value is not None]
    highest = top if top is not None else max(present, default=0.0)
    step = WIDTH / max(1, len(values) - 1)
    parts: list[str] = []
    gap = True
    for i, value in enumerate(values):
        if value is not None:
            y = HEIGHT - HEIGHT * (value / highest if highest else 0.0)
            # A single point is a line of length 0: its round ends make it a dot.
            parts.append(f"{'M' if gap else 'L'}{i * step:.1f} {y:.1f}" + ("h0" if gap else ""))
        gap = value is None
    return Chart("".join(parts), highest, present[-1] if present else None)
