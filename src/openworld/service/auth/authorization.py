"""Roles, and the dependencies by which a route names the role it needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, get_args

from fastapi import Depends, Request

from openworld.service.results import Role

if TYPE_CHECKING:
    from openworld.service.auth.authentication import Authenticator

ROLES: tuple[Role, ...] = get_args(Role)  # each may do what those before it may


@dataclass(frozen=True)
class Person:
    """Who makes a request: the name of a key, or of whoever uses this machine while there are no keys."""

    name: str
    role: Role

    def may(self, role: Role) -> bool:
        """Tell whether this person has a role, or a higher one."""
        return ROLES.index(self.role) >= ROLES.index(role)


def _require(role: Role) -> Callable[[Request], Awaitable[Person]]:
    async def authorized(request: Request) -> Person:
        auth: Authenticator = request.app.state.service.auth
        return await auth.authorize(request, role)

    return authorized


Viewer = Annotated[Person, Depends(_require("viewer"))]
Labeller = Annotated[Person, Depends(_require("labeller"))]
Admin = Annotated[Person, Depends(_require("admin"))]
