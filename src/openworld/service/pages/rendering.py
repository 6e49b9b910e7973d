"""Templates -> HTML: everything is escaped, and numbers and times are written as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from openworld.service.pages.static_files import FOLDER, MODULES


def render(template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """Render a template: a page, or a part of one that htmx puts in its place."""
    html = _environment.get_template(template).render(context)
    return HTMLResponse(html, status, {"Cache-Control": "no-store"})


def _count(value: float) -> str:
    """Write a number of things, with commas."""
    return f"{value:,.0f}"


def _distance(value: float) -> str:
    return f"{value:.3g}"


def _duration(milliseconds: float) -> str:
    return f"{milliseconds:.2g} ms" if milliseconds < 100 else f"{milliseconds / 1e3:.2g} s"


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


_environment = Environment(
    loader=PackageLoader("openworld.service.pages"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.globals.update(static=FOLDER, modules=MODULES)
_environment.filters.update(
    count=_count, distance=_distance, duration=_duration, ago=_ago, plural=_plural, segment=_segment
)
