"""Pages for operating the service: dashboard, history, data in and out, people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse

from openworld.service.auth import ROLES
from openworld.service.dependencies import get_state
from openworld.service.events import UNDOABLE_KINDS, event_of
from openworld.service.history import HistoryEvent
from openworld.service.metrics import Period
from openworld.service.pages.page import kind_of, page, person, render, world_of
from openworld.service.schemas import Id
from openworld.service.validation import Conflict, NotFound, Refused

_VERSIONS = 20
_RANGES = {600: "10 minutes", 1800: "30 minutes", 3600: "1 hour", 21600: "6 hours"}

_GOALS = {
    "error": "treat mistakes on known and unknown samples alike",
    "recall": "accept {} of the known samples",
    "far": "accept at most {} of the unknown samples",
    "f1": "best F1 while accepting at least {} of the known samples",
}

router = APIRouter()
Range = Annotated[int, Query(alias="range", ge=60, le=21600)]
_CHART_WIDTH, _CHART_HEIGHT = 600, 120
_CHART_COLUMNS = 120
_EVENTS_AT_ONCE = 50
EXPORTS = (
    (
        "/v1/export/labeled?format=csv",
        "Table (.csv)",
        "Labels with texts or numbers, one sample on each line.",
    ),
    ("/v1/export/labeled?format=parquet", "Table (.parquet)", "The same with pictures and features."),
    (
        "/v1/export/labeled?format=zip",
        "Folders (.zip)",
        "One folder for each class, as openworld fit reads it.",
    ),
    ("/v1/export/labeled?format=label-studio", "Label Studio (.json)", "Tasks with their choices."),
    ("/v1/export/labeled?format=npz", "Arrays (.npz)", "Features X and labels y for numpy."),
    ("/v1/export/model", "Model (.ow)", "For openworld recognize and openworld serve."),
    ("/v1/export/log", "Event log (.ndjson)", "Who did what, and when."),
)


@router.get("/dashboard")
def dashboard(request: Request, seconds: Range = 1800) -> HTMLResponse:
    """Show how the service performs."""
    point = world_of(request).operating_point.get()
    kind, _, share = (point.objective or "error").partition("=")
    return page(
        request,
        "dashboard.html",
        goals={name: words.format("a share").capitalize() for name, words in _GOALS.items()},
        goal=goal(point.objective or "error"),
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
    return render(
        "operating_point.html", point=point, preview=point.preview, goal=goal(objective), me=person(request)
    )


def goal(objective: str) -> str:
    """Say what an objective asks for: "accept 95 % of the known samples"."""
    kind, _, share = objective.partition("=")
    return _GOALS[kind].format(f"{100 * float(share or 0):.3g} %")


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
    """Return the line that shows the progress."""
    world, me = world_of(request), person(request)
    return render("progress.html", progress=world.labels.progress(me.name), version=world.model.version)


def _figures(request: Request, seconds: int) -> dict[str, Any]:
    state = get_state(request)
    periods = [p for p in state.metrics.periods(21600 // 10) if p.at >= time() - seconds]
    columns = time_columns(periods, time(), seconds)
    slowest = line_chart([largest(c, lambda p: 1e3 * p.recognition_p99) for c in columns])
    counts = [float(sum(p.samples for p in column)) for column in columns]
    return {
        "range": seconds,
        "range_name": _RANGES.get(seconds, f"{seconds} seconds"),
        "share": line_chart([share_of_unknown(column) for column in columns], top=1.0),
        "share_now": share_of_unknown(periods),
        "median": line_chart([largest(c, lambda p: 1e3 * p.recognition_p50) for c in columns], slowest.top),
        "slowest": slowest,
        "rate": line_chart([60 * count * len(columns) / seconds for count in counts]),
        "n_samples": sum(period.samples for period in periods),
        "n_requests": sum(period.requests for period in periods),
        "n_failed": sum(period.failed for period in periods),
        "n_classes": len(state.world.classes.all()),
        "drift": state.metrics.drift(),
        "quality": state.world.recognized.quality()[0],
        "versions": state.world.history.versions(limit=_VERSIONS),
        "width": _CHART_WIDTH,
        "height": _CHART_HEIGHT,
    }


# -- charts ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chart:
    """A line chart as an SVG path, the value at its top, and its last value."""

    path: str
    top: float
    last: float | None


def line_chart(values: Sequence[float | None], top: float | None = None) -> Chart:
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
    step = _CHART_WIDTH / max(1, len(values) - 1)
    parts: list[str] = []
    gap = True
    for i, value in enumerate(values):
        if value is not None:
            y = _CHART_HEIGHT - _CHART_HEIGHT * (value / highest if highest else 0.0)
            # A single point is a line of length 0: its round ends make it a dot.
            parts.append(f"{'M' if gap else 'L'}{i * step:.1f} {y:.1f}" + ("h0" if gap else ""))
        gap = value is None
    return Chart("".join(parts), highest, present[-1] if present else None)


def time_columns(periods: Sequence[Period], now: float, seconds: float) -> list[list[Period]]:
    """Return the periods of the last seconds in equal columns of time, oldest first; some may be empty."""
    found: list[list[Period]] = [[] for _ in range(_CHART_COLUMNS)]
    width = seconds / _CHART_COLUMNS
    for period in periods:
        column = int((period.at - (now - seconds)) // width)
        if 0 <= column < _CHART_COLUMNS:
            found[column].append(period)
    return found


def share_of_unknown(column: Sequence[Period]) -> float | None:
    """Return the share of unknown samples in a column, or None without samples."""
    n_samples = sum(period.samples for period in column)
    return sum(period.unknown for period in column) / n_samples if n_samples else None


def largest(column: Sequence[Period], value: Callable[[Period], float]) -> float | None:
    """Return the largest value in a column, or None where there is none."""
    return max((value(period) for period in column if value(period)), default=None)


# -- history --------------------------------------------------------------------------------------


@router.get("/history")
def history(request: Request, mine: bool = False) -> HTMLResponse:
    """Show the events, newest first."""
    return page(request, "history.html", **_events(request, mine, None))


@router.get("/history/events")
def events(request: Request, before: Id, mine: bool = False) -> HTMLResponse:
    """Return older events."""
    return render("events.html", me=person(request), **_events(request, mine, before))


def _events(request: Request, mine: bool, before: int | None) -> dict[str, Any]:
    who = person(request).name if mine else None
    history = world_of(request).history
    found = history.events(before, _EVENTS_AT_ONCE, who)
    originals = history.originals(found)
    return {
        "mine": mine,
        "events": [(event, _words(event, originals.get(event.id))) for event in found],
        "undoable": UNDOABLE_KINDS,
        "before": found[-1].id if len(found) == _EVENTS_AT_ONCE else None,
    }


def _words(event: HistoryEvent, original: HistoryEvent | None) -> str:
    """Say what an event did; an undo or a redo did it to the original event."""
    words = event_of(event.kind, event.payload).describe()
    return words if original is None else f"{words} event {original.id}: {_words(original, None)}"


@router.get("/history/last")
def last(request: Request) -> JSONResponse:
    """Return the events that undo and redo would take now: named by id, a request may be sent twice."""
    history, who = world_of(request).history, person(request).name
    return JSONResponse({"undo": history.next_to_undo(who), "redo": history.next_to_redo(who)})


# -- data -----------------------------------------------------------------------------------------


@router.get("/data")
def data(request: Request) -> HTMLResponse:
    """Show what can be imported and exported."""
    return page(
        request,
        "data.html",
        kind=kind_of(request),
        n_features=world_of(request).model.n_features,
        exports=EXPORTS,
    )


# -- people ---------------------------------------------------------------------------------------


@router.get("/people")
def people(request: Request) -> HTMLResponse:
    """Show the keys, with forms to make and revoke them."""
    me = person(request)
    if not me.may("admin"):
        raise HTTPException(403, f"This needs the role admin; {me.name} has the role {me.role}.")
    keys = world_of(request).keys.all()
    valid = [key for key in keys if key.revoked_at is None]
    return page(request, "people.html", keys=valid, roles=ROLES)
