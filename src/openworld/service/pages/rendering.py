"""Turning templates into answers: escaping, formats, and what is on every page."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from openworld.service.pages.people import person
from openworld.service.state import get_state
from openworld.service.world import World

_NAVIGATION = (
    ("/", "Unknowns"),
    ("/map", "Map"),
    ("/classes", "Classes"),
    ("/try", "Try it"),
    ("/dashboard", "Dashboard"),
    ("/history", "History"),
)
_HEADERS = {"Cache-Control": "no-store"}


def world_of(request: Request) -> World:
    """Return the world that the application serves."""
    return get_state(request).world


def page(request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """Render a whole page, with navigation and progress."""
    world, me = world_of(request), person(request)
    frame = {
        "me": me,
        "path": request.url.path,
        "navigation": _NAVIGATION,
        "progress": world.progress(me.name),
        "version": world.version,
    }
    return fragment(template, status, **frame, **context)


def fragment(template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """Render a template on its own: a part of a page that htmx puts in its place."""
    return HTMLResponse(_templates.get_template(template).render(context), status, _HEADERS)


def _count(value: float) -> str:
    """Write a number of things, with commas."""
    return f"{value:,.0f}"


def _distance(value: float) -> str:
    return f"{value:.3g}"


def _ago(moment: datetime) -> str:
    """Say how long ago something was, in words."""
    seconds = (datetime.now(UTC) - moment).total_seconds()
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            return f"{_plural(seconds // size, name)} ago"
    return "just now"


def _plural(number: float, word: str) -> str:
    """Write a number and a word: 1 sample, 2 samples, 2 classes."""
    ending = "" if number == 1 else "es" if word.endswith("s") else "s"
    return f"{_count(number)} {word}{ending}"


def _segment(text: str) -> str:
    """Return text as one part of the path of an address."""
    return quote(text, safe="")


_templates = Environment(
    loader=PackageLoader("openworld.service.pages"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters.update(count=_count, distance=_distance, ago=_ago, plural=_plural, segment=_segment)
