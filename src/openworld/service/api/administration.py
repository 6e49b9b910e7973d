"""Operating the service: sessions, API keys, health and metrics."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Query, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from openworld.service.api.errors import errors
from openworld.service.auth import COOKIE
from openworld.service.dependencies import Admin, Service, ServiceState, Viewer
from openworld.service.schemas import KeyBody, LoginBody, NewKey, PeriodInfo, SessionInfo, Status
from openworld.service.validation import Conflict
from openworld.store import StorageError
from openworld.store.records import Key

session_router = APIRouter(prefix="/v1/session", tags=["session"], responses=errors(401, 422, 429))
keys_router = APIRouter(prefix="/v1/keys", tags=["keys"], responses=errors(401, 403, 422, 429))
probes_router = APIRouter(tags=["probes"])


@session_router.get("")
def get_session(request: Request, service: Service) -> SessionInfo:
    """Return who is logged in."""
    person = service.auth.identify(request)
    return SessionInfo(
        name=person.name if person else None,
        role=person.role if person else None,
        needs_key=service.auth.key_required(),
    )


@session_router.post("")
def log_in(body: LoginBody, request: Request, response: Response, service: Service) -> SessionInfo:
    """Log in with a key; or choose a name, while there are no keys."""
    address = request.client.host if request.client else ""
    found = service.auth.log_in(body.key, body.name, address)
    if found is None:
        raise HTTPException(401, "This key does not exist, or it was revoked.")
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


@session_router.delete("", status_code=204, response_class=Response)
def log_out(request: Request, response: Response, service: Service) -> None:
    """Log out: the session ends on the server, so that no copy of its cookie works on."""
    cookie = request.cookies.get(COOKIE)
    if cookie is not None:
        service.auth.log_out(cookie)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")


# -- keys -----------------------------------------------------------------------------------------


@keys_router.get("")
def keys(service: Service, _: Admin) -> list[Key]:
    """List the keys by name, revoked ones too."""
    return service.world.keys.all()


@keys_router.post("", status_code=201, responses=errors(409))
def create_key(body: KeyBody, service: Service, _: Admin) -> NewKey:
    """Create a key; its secret is returned only here. The first key must be an admin's."""
    if body.role != "admin" and not _has_admin(service):
        raise Conflict("The first key must have the role admin: otherwise nobody could create another.")
    return NewKey(name=body.name, role=body.role, key=service.world.keys.create(body.name, body.role))


@keys_router.delete("/{name:path}", status_code=204, response_class=Response, responses=errors(404, 409))
def revoke_key(
    name: Annotated[str, Path(max_length=400, description="The name of a key.")], service: Service, _: Admin
) -> None:
    """Revoke a key: it stops working within ten seconds. The last key of an admin cannot be revoked."""
    if not _has_admin(service, besides=name):
        raise Conflict(f"{name!r} is the last key of an admin: create another first.")
    service.world.keys.revoke(name)


def _has_admin(service: ServiceState, besides: str | None = None) -> bool:
    valid = [key for key in service.world.keys.all() if key.revoked_at is None and key.name != besides]
    return service.settings.key is not None or any(key.role == "admin" for key in valid)


# -- health and metrics ---------------------------------------------------------------------------


@probes_router.get("/health", responses=errors())
async def health() -> Status:
    """Respond as long as the process runs."""
    return Status()


@probes_router.get("/ready", responses=errors(503))
def ready(service: Service) -> Status:
    """Respond with 200 when requests can be served: the model is loaded and the database responds."""
    try:
        service.world.check()
    except StorageError as error:
        raise HTTPException(503, str(error)) from error
    except Exception as error:
        raise HTTPException(503, "The database does not respond.") from error
    return Status(model_version=service.world.model.version)


@probes_router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}, **errors(401, 403, 429)},
)
def metrics(service: Service, _: Viewer) -> Response:
    """Return measurements for Prometheus."""
    return Response(service.metrics.exposition(), headers={"Content-Type": CONTENT_TYPE_LATEST})


@probes_router.get("/v1/statistics", responses=errors(401, 403, 422, 429))
def statistics(
    service: Service,
    _: Viewer,
    periods: Annotated[int, Query(ge=1, le=2160, description="Of ten seconds each.")] = 360,
) -> list[PeriodInfo]:
    """Return share of unknown, latency and version over time, oldest first."""
    return [PeriodInfo.model_validate(period) for period in service.metrics.periods(periods)]
