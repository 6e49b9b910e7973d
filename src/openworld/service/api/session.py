"""Logging in and out: a session cookie for the page."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request, Response

from openworld.service.api.errors import errors
from openworld.service.auth.sessions import COOKIE
from openworld.service.schemas import LoginBody, SessionInfo
from openworld.service.state import Service

router = APIRouter(prefix="/v1/session", tags=["session"], responses=errors(401, 422, 429))


@router.get("")
def get_session(request: Request, service: Service) -> SessionInfo:
    """Tell who one is."""
    person = service.auth.identify(request)
    return SessionInfo(
        name=person.name if person else None,
        role=person.role if person else None,
        needs_key=service.auth.key_required(),
    )


@router.post("")
def log_in(body: LoginBody, request: Request, response: Response, service: Service) -> SessionInfo:
    """Log in with a key; or choose a name, while there are no keys."""
    address = request.client.host if request.client else ""
    found = service.auth.log_in(body.key, body.name, address)
    if found is None:
        raise HTTPException(401, "This is no key, or it was revoked.")
    person, sealed = found
    response.set_cookie(
        COOKIE,
        sealed,
        max_age=int(service.auth.sessions.max_age),
        httponly=True,
        samesite="strict",
        secure=service.settings.secure_cookie,
    )
    return SessionInfo(name=person.name, role=person.role, needs_key=service.auth.key_required())


@router.delete("", status_code=204, response_class=Response)
def log_out(request: Request, response: Response, service: Service) -> None:
    """Log out: the session ends on the server, so that no copy of its cookie works on."""
    cookie = request.cookies.get(COOKIE)
    if cookie is not None:
        service.auth.log_out(cookie)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
