"""Who is at the page: logging in with a key or, while there are no keys, just saying one's name."""

from __future__ import annotations

from fastapi import HTTPException, Request

from openworld.service.security.doorkeeper import Person
from openworld.service.state import get_state


def person(request: Request) -> Person:
    """Return who asks for a page, or send them to the login page."""
    found = get_state(request).doorkeeper.who(request)
    if found is None:
        raise HTTPException(303, "Log in first.", {"Location": "/login"})
    return found
