"""Who is at the page: logging in with a key or, while there are no keys, just saying one's name."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse

from openworld.service.auth.authorization import Person
from openworld.service.pages.rendering import render
from openworld.service.state import get_state

router = APIRouter()


def person(request: Request) -> Person:
    """Return who asks for a page, or send them to the login page."""
    found = get_state(request).auth.identify(request)
    if found is None:
        raise HTTPException(303, "Log in first.", {"Location": "/login"})
    return found


@router.get("/login")
def login(request: Request) -> HTMLResponse:
    """Ask for a key or, while there are none, for a name; the script sends it to the API."""
    auth = get_state(request).auth
    return render("login.html", needs_key=auth.key_required(), me=auth.identify(request))
