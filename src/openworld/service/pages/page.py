"""Shared by all pages: templates, static files, the frame, who is looking, and errors as pages."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException as StarletteHTTPException

from openworld.features.extractor import Kind
from openworld.service.auth import Person
from openworld.service.dependencies import get_state
from openworld.service.validation import Conflict
from openworld.service.world import World

_NAVIGATION = (
    ("/", "Unknowns"),
    ("/recognized", "Recognized"),
    ("/map", "Map"),
    ("/classes", "Classes"),
    ("/try", "Try it"),
    ("/dashboard", "Dashboard"),
    ("/history", "History"),
    ("/data", "Data"),
    ("/docs", "API"),
)

# Static files are read once, so no path of a request ever reaches the file system.
_MEDIA_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "txt": "text/plain"}
_STATIC = {
    file.name: file.read_bytes() for file in files("openworld.service.pages").joinpath("static").iterdir()
}
_DIGEST = hashlib.sha256(b"".join(_STATIC[name] for name in sorted(_STATIC))).hexdigest()[:12]
_STATIC_URL = f"/static/{_DIGEST}"  # changes with the content, so browsers may cache for ever
_MODULES = sorted(
    name for name in _STATIC if name.endswith(".js") and name not in ("htmx.min.js", "login.js")
)

router = APIRouter()
_TITLES = {
    404: "There is no such page",
    403: "Not allowed",
    500: "Something went wrong",
    503: "Not available at the moment",
}
_NO_NAME = "openworld_no_name"  # cookie of a person who does not want to be asked for a name


def world_of(request: Request) -> World:
    """Return the world that the application serves."""
    return get_state(request).world


def person(request: Request) -> Person:
    """Return who asks for a page, or redirect to the login page."""
    found = get_state(request).auth.identify(request)
    if found is None:
        raise HTTPException(303, "Log in first.", {"Location": "/login"})
    return found


def page(request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """Render a whole page, with navigation and progress."""
    world, me = world_of(request), person(request)
    frame = {
        "me": me,
        "asks_name": me.name == "local" and _NO_NAME not in request.cookies,
        "path": request.url.path,
        "navigation": _NAVIGATION,
        "progress": world.labels.progress(me.name),
        "version": world.model.version,
    }
    return render(template, status, **frame, **context)


def render(template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """Render a template: a page, or a fragment for htmx."""
    html = _environment.get_template(template).render(context)
    return HTMLResponse(html, status, {"Cache-Control": "no-store"})


@router.get("/login")
def login(request: Request) -> HTMLResponse:
    """Ask for a key or, while there are no keys, for a name; the script sends it to the API."""
    auth = get_state(request).auth
    return render("login.html", needs_key=auth.key_required(), me=auth.identify(request))


@router.get("/static/{digest}/{name}")
def static_file(digest: str, name: str) -> Response:
    """Send a static file."""
    if name not in _STATIC:
        raise HTTPException(404, f"There is no file {name}.")
    caching = "public, max-age=31536000, immutable" if digest == _DIGEST else "no-cache"
    return Response(_STATIC[name], 200, {"Cache-Control": caching}, _MEDIA_TYPES[name.rpartition(".")[2]])


@router.get("/favicon.ico")
def icon() -> Response:
    """Send the icon at the traditional address."""
    return static_file(_DIGEST, "icon.svg")


def numbers(text: str) -> list[int]:
    """Return the ids in a text, separated by commas; other parts are ignored."""
    return [int(part) for part in text.split(",") if part.isascii() and part.isdigit() and len(part) < 10]


# -- template filters -----------------------------------------------------------------------------


def _count(value: float) -> str:
    """Format a count with thousands separators."""
    return f"{value:,.0f}"


def _distance(value: float) -> str:
    return f"{value:.3g}"


def _duration(milliseconds: float) -> str:
    return f"{milliseconds:.2g} ms" if milliseconds < 100 else f"{milliseconds / 1e3:.2g} s"


def _ago(moment: datetime) -> str:
    """Say how long ago something was."""
    seconds = (datetime.now(UTC) - moment).total_seconds()
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            return f"{_plural(seconds // size, name)} ago"
    return "just now"


def _plural(number: float, word: str) -> str:
    """Format a count and a noun: 1 sample, 2 samples, 2 classes."""
    ending = "" if number == 1 else "es" if word.endswith("s") else "s"
    return f"{_count(number)} {word}{ending}"


def _segment(text: str) -> str:
    """Quote the name of a class as one segment of a URL path."""
    return f"-?name={text}" if text in (".", "..") else quote(text, safe="")


_environment = Environment(
    loader=PackageLoader("openworld.service.pages"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.globals.update(static=_STATIC_URL, modules=_MODULES)
_environment.filters.update(
    count=_count, distance=_distance, duration=_duration, ago=_ago, plural=_plural, segment=_segment
)


def kind_of(request: Request) -> Kind | None:
    """Return what the model takes: pictures, texts, or None for vectors; also if it cannot be extracted."""
    try:
        return get_state(request).inputs.kind
    except Conflict:  # the extractor is not installed
        return None


# -- errors ---------------------------------------------------------------------------------------


def problem_page(request: Request, error: StarletteHTTPException) -> Response | None:
    """Return an error as a page where a browser asks for one; None where a program asks."""
    for_page = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/v1/")
    if not for_page or error.status_code < 400:
        return None
    message = str(error.detail)
    if error.status_code == 404 and message == "Not Found":
        message = f"Nothing is at {request.url.path}. Check the address, or start from the home page."
    title = _TITLES.get(error.status_code, "This did not work")
    return render("problem.html", error.status_code, title=title, message=message)
