"""People: who has a key, for admins."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse

from openworld.service.auth.authorization import ROLES
from openworld.service.pages.page import page, person, world_of

router = APIRouter()


@router.get("/people")
def people(request: Request) -> HTMLResponse:
    """Show the keys, with forms to make and revoke them."""
    me = person(request)
    if not me.may("admin"):
        raise HTTPException(403, f"This needs the role admin; {me.name} is {me.role}.")
    keys = world_of(request).keys.all()
    valid = [key for key in keys if key.revoked_at is None]
    return page(request, "people.html", keys=valid, roles=ROLES)
