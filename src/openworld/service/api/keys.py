"""API keys: admins list, make and revoke them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from openworld.service.api.errors import errors
from openworld.service.auth.authorization import Admin
from openworld.service.schemas import KeyBody, NewKey
from openworld.service.state import Service, ServiceState
from openworld.service.validation import Conflict
from openworld.store.records import Key

router = APIRouter(prefix="/v1/keys", tags=["keys"], responses=errors(401, 403, 422, 429))


@router.get("")
def keys(service: Service, _: Admin) -> list[Key]:
    """List the keys by name, revoked ones too."""
    return service.world.keys.all()


@router.post("", status_code=201, responses=errors(409))
def create_key(body: KeyBody, service: Service, _: Admin) -> NewKey:
    """Make a key; its secret is shown here and never again. The first one is an admin's."""
    if body.role != "admin" and not _has_admin(service):
        raise Conflict("The first key must have the role admin: otherwise nobody could make another.")
    return NewKey(name=body.name, role=body.role, key=service.world.keys.create(body.name, body.role))


@router.delete("/{name:path}", status_code=204, response_class=Response, responses=errors(404, 409))
def revoke_key(
    name: Annotated[str, Path(max_length=400, description="The name of a key.")], service: Service, _: Admin
) -> None:
    """Revoke a key: it is useless within ten seconds. The last one of an admin stays."""
    if not _has_admin(service, besides=name):
        raise Conflict(f"{name!r} is the last key of an admin: make another first.")
    service.world.keys.revoke(name)


def _has_admin(service: ServiceState, besides: str | None = None) -> bool:
    valid = [key for key in service.world.keys.all() if key.revoked_at is None and key.name != besides]
    return service.settings.key is not None or any(key.role == "admin" for key in valid)
