"""The doorkeeper: finds out who makes a request, and whether they may."""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Annotated, get_args

from fastapi import Depends, HTTPException, Request

from openworld.service.checks import check_name
from openworld.service.configuration import ServiceSettings
from openworld.service.results import Key, Role
from openworld.service.security.rate_limit import RateLimit
from openworld.service.security.sessions import COOKIE, Sessions
from openworld.service.world import World

ROLES: tuple[Role, ...] = get_args(Role)
LOCAL = "local"

_REMEMBERED_SECONDS = 5.0
_MOST_REMEMBERED = 1000
_WRONG_KEYS_A_SECOND = 0.2
_WRONG_KEYS_AT_ONCE = 10


@dataclass(frozen=True)
class Person:
    """Who makes a request: a key's name, or whoever sits at this machine while there are no keys."""

    name: str
    role: Role

    def may(self, role: Role) -> bool:
        """Tell whether this person may do what a role may do."""
        return ROLES.index(self.role) >= ROLES.index(role)


class Doorkeeper:
    """Admits people by key or by session cookie.

    As long as there is no key, everyone who reaches the service is admin: it then listens on loopback only.
    What the database says about a key is remembered, for ten seconds at most.
    """

    def __init__(
        self,
        world: World,
        settings: ServiceSettings,
        sessions: Sessions,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._world, self._sessions, self._clock = world, sessions, clock
        self._key = settings.key.get_secret_value() if settings.key else None
        self._limit = RateLimit(settings.rate_limit, max(10.0, 2 * settings.rate_limit), clock)
        self._wrong_keys = RateLimit(_WRONG_KEYS_A_SECOND, _WRONG_KEYS_AT_ONCE, clock)
        self._remembered: dict[str, tuple[float, Person | None]] = {}
        self._lock = threading.Lock()

    @property
    def sessions(self) -> Sessions:
        """The session cookies."""
        return self._sessions

    def admit(self, request: Request, role: Role) -> Person:
        """Return who makes a request, or raise 401, 403 or 429."""
        person = self.who(request)
        if person is None:
            raise HTTPException(401, "A key is needed: send it as Authorization: Bearer KEY, or log in.")
        headers = dict(request.scope["headers"])
        if b"cookie" not in headers:
            self._note(_question(headers), person)
        return self._check(person, role)

    def _check(self, person: Person, role: Role) -> Person:
        """Return the person, if their role allows this and they do not come too often."""
        if not person.may(role):
            raise HTTPException(403, f"This needs the role {role}; {person.name} is {person.role}.")
        wait = self._limit.wait_for(person.name)
        if wait:
            raise _too_many(wait)
        return person

    def admit_quickly(self, headers: list[tuple[bytes, bytes]], role: Role) -> Person | None:
        """Do as `admit` for one who was admitted by the same key a moment ago; else return None."""
        found = dict(headers)
        before = None if b"cookie" in found else self._fresh(_question(found))
        if before is None or before[1] is None:
            return None
        return self._check(before[1], role)

    def who(self, request: Request) -> Person | None:
        """Return who makes a request, or None for someone unknown."""
        secret = _secret(request)
        if secret is not None:
            return self.by_key(secret, request.client.host if request.client else "")
        session = self._session(request)
        if session is not None:
            return session
        return None if self.needs_key() else Person(LOCAL, "admin")

    def by_key(self, secret: str, address: str) -> Person | None:
        """Return whose key this is; one who tries many wrong ones has to wait."""
        if self._is_setting(secret):
            return Person("admin", "admin")
        person = self._remember(f"key {secret}", lambda: _person(self._world.check_key(secret)))
        if person is None:
            wait = self._wrong_keys.wait_for(address)
            if wait:
                raise _too_many(wait)
        return person

    def _is_setting(self, secret: str) -> bool:
        return self._key is not None and hmac.compare_digest(secret.encode(), self._key.encode())

    def needs_key(self) -> bool:
        """Tell whether one needs a key: from the first one on."""
        return self._key is not None or self._remember("any", self._any_key) is not None

    def _any_key(self) -> Person | None:
        return next(map(_person, self._valid_keys()), None)

    def _session(self, request: Request) -> Person | None:
        """Return the person of the cookie, who has the role that the key has now."""
        sealed = request.cookies.get(COOKIE)
        content = self._sessions.open(sealed) if sealed else None
        if content is None:
            return None
        name, by = str(content.get("name", "")), content.get("by")
        if by == "setting":
            return Person(name, "admin") if self._key is not None else None
        if by == "key":
            return self._remember(f"name {name}", lambda: self._named(name))
        return None if self.needs_key() else Person(name, "admin")

    def _named(self, name: str) -> Person | None:
        return next((_person(key) for key in self._valid_keys() if key.name == name), None)

    def _valid_keys(self) -> list[Key]:
        keys = self._world.keys()
        return [key for key in keys if key.revoked_at is None]

    def log_in(self, secret: str | None, name: str | None, address: str) -> tuple[Person, str] | None:
        """Return who logs in and the content of their session cookie, or None where the key is wrong."""
        if secret:
            person = self.by_key(secret, address)
            by = "setting" if person is not None and self._is_setting(secret) else "key"
        else:
            wanted = check_name(name or LOCAL, "A person")
            person, by = (None if self.needs_key() else Person(wanted, "admin")), "name"
        if person is None:
            return None
        return person, self._sessions.seal({"name": person.name, "by": by})

    def _fresh(self, question: str) -> tuple[float, Person | None] | None:
        with self._lock:
            before = self._remembered.get(question)
        return before if before and self._clock() - before[0] < _REMEMBERED_SECONDS else None

    def _remember(self, question: str, answer: Callable[[], Person | None]) -> Person | None:
        before = self._fresh(question)
        if before is not None:
            return before[1]
        found = answer()
        self._note(question, found)
        return found

    def _note(self, question: str, answer: Person | None) -> None:
        with self._lock:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[question] = self._clock(), answer


def _question(headers: dict[bytes, bytes]) -> str:
    """Return what stands for the key in the headers, as it is remembered for `admit_quickly`."""
    return f"headers {headers.get(b'authorization')!r} {headers.get(b'x-api-key')!r}"


def _secret(request: Request) -> str | None:
    headers = dict(request.scope["headers"])
    given = headers.get(b"authorization")
    if given is None:
        plain = headers.get(b"x-api-key")
        return None if plain is None else plain.decode("latin-1")
    kind, _, secret = given.decode("latin-1").partition(" ")
    return secret.strip() if kind.lower() == "bearer" else ""


def _person(key: Key | None) -> Person | None:
    return None if key is None else Person(key.name, key.role)


def _too_many(wait: float) -> HTTPException:
    return HTTPException(429, "Too many requests: wait a little.", {"Retry-After": str(max(1, round(wait)))})


def _needs(role: Role) -> Callable[[Request], Person]:
    def admitted(request: Request) -> Person:
        doorkeeper: Doorkeeper = request.app.state.service.doorkeeper
        return doorkeeper.admit(request, role)

    return admitted


Viewer = Annotated[Person, Depends(_needs("viewer"))]
Labeller = Annotated[Person, Depends(_needs("labeller"))]
Admin = Annotated[Person, Depends(_needs("admin"))]
