"""Authorization: roles, rate limits, and the dependencies by which a route names the role it needs."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Annotated, get_args

from fastapi import Depends, Request

from openworld.store.records import Role

if TYPE_CHECKING:
    from openworld.service.auth.authentication import Authenticator

_MAX_NAMES = 10_000

ROLES: tuple[Role, ...] = get_args(Role)  # each may do what those before it may


@dataclass(frozen=True)
class Person:
    """Who makes a request: the name of a key, or of whoever uses this machine while there are no keys."""

    name: str
    role: Role

    def may(self, role: Role) -> bool:
        """Tell whether this person has a role, or a higher one."""
        return ROLES.index(self.role) >= ROLES.index(role)


class RateLimit:
    """A token bucket for each name, which fills at a steady rate; the longest unused is forgotten first.

    By hand: `limits` has windows but no token bucket (a burst after a pause, then a steady rate), and a hit
    of its in-memory storage takes several times as long.

    Parameters
    ----------
    rate : float
        Requests per second in the long run; 0 for no limit.
    burst : float
        Requests at once, after a pause.
    clock : callable
        Returns seconds.
    """

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: dict[str, tuple[float, float]] = {}  # name -> tokens, when counted; oldest first
        self._lock = threading.Lock()

    def wait_for(self, name: str, *, take: bool = True) -> float:
        """Take a token; return 0, or the seconds until there is one. Without `take`, only look."""
        if not self._rate:
            return 0.0
        now = self._clock()
        with self._lock:
            tokens, before = self._buckets.pop(name, (self._burst, now))
            tokens = min(self._burst, tokens + (now - before) * self._rate)
            if len(self._buckets) >= _MAX_NAMES:
                del self._buckets[next(iter(self._buckets))]
            self._buckets[name] = tokens - (take and tokens >= 1), now
            return 0.0 if tokens >= 1 else (1 - tokens) / self._rate


def _require(role: Role) -> Callable[[Request], Awaitable[Person]]:
    async def authorized(request: Request) -> Person:
        auth: Authenticator = request.app.state.service.auth
        return await auth.authorize(request, role)

    return authorized


Viewer = Annotated[Person, Depends(_require("viewer"))]
Labeler = Annotated[Person, Depends(_require("labeler"))]
Admin = Annotated[Person, Depends(_require("admin"))]
