"""What is on every page: navigation, progress, the person."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse

from openworld.service.pages.people import person
from openworld.service.pages.rendering import render
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
        "progress": world.labels.progress(me.name),
        "version": world.model.version,
    }
    return render(template, status, **frame, **context)
