"""Authentication: who makes a request, by API key or by session cookie."""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

from cachetools import TTLCache
from fastapi import HTTPException, Request
from fastapi.concurrency import run_in_threadpool

from openworld.service.auth.authorization import Person, RateLimit
from openworld.service.auth.keys import ApiKeys
from openworld.service.auth.sessions import COOKIE, Sessions
from openworld.service.settings import ServiceSettings
from openworld.service.validation import check_name
from openworld.store.records import Key, Role

LOCAL = "local"

_CACHE_SECONDS = 5.0
_CACHE_SIZE = 1000
_WRONG_KEYS_PER_SECOND = 0.2
_WRONG_KEYS_AT_ONCE = 10


class Credentials(NamedTuple):
    """The API key and the session cookie of a request, as they were sent."""

    key: str | None = None
    cookie: str | None = None

    @classmethod
    def of(cls, request: Request) -> Credentials:
        """Read the headers of a request."""
        headers = dict(request.scope["headers"])  # Starlette's Headers searches a list for each name
        cookie = request.cookies.get(COOKIE) if b"cookie" in headers else None
        authorization = headers.get(b"authorization")
        if authorization is not None:
            scheme, _, key = authorization.decode("latin-1").partition(" ")
            return cls(key.strip() if scheme.lower() == "bearer" else "", cookie)
        plain = headers.get(b"x-api-key")
        return cls(None if plain is None else plain.decode("latin-1"), cookie)


class Authenticator:
    """Finds the person of a request and checks their role and rate.

    As long as there are no keys, everyone who reaches the service is admin: it then listens on loopback only.
    Who has which credentials is cached for five seconds; a revoked key works that much longer at most.
    """

    def __init__(
        self,
        keys: ApiKeys,
        settings: ServiceSettings,
        sessions: Sessions,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._keys, self.sessions = keys, sessions
        self._admin_key = settings.key.get_secret_value() if settings.key else None
        self._requests = RateLimit(settings.rate_limit, max(10.0, 2 * settings.rate_limit), clock)
        self._wrong_keys = RateLimit(_WRONG_KEYS_PER_SECOND, _WRONG_KEYS_AT_ONCE, clock)
        self._cache: TTLCache[Credentials, Person | None] = TTLCache(_CACHE_SIZE, _CACHE_SECONDS, clock)
        self._lock = threading.Lock()

    async def authorize(self, request: Request, role: Role) -> Person:
        """Return who makes a request if they have the role; else raise 401, 403 or 429."""
        person = await self.authenticate(request)
        if not person.may(role):
            raise HTTPException(403, f"This needs the role {role}; {person.name} is {person.role}.")
        _refuse_if(self._requests.wait_for(person.name))
        return person

    async def authenticate(self, request: Request) -> Person:
        """Return who makes a request; raise 401 where that is unknown, 429 after too many wrong keys."""
        credentials = Credentials.of(request)
        with self._lock:
            person = self._cache.get(credentials)
        if person is None:
            person = await run_in_threadpool(self._find, credentials, _address(request))
        if person is None:
            raise HTTPException(401, "A key is needed: send it as Authorization: Bearer KEY, or log in.")
        return person

    def identify(self, request: Request) -> Person | None:
        """Return who makes a request, or None for someone unknown; it may ask the database."""
        return self._find(Credentials.of(request), _address(request))

    def key_required(self) -> bool:
        """Tell whether a key is needed: from the first one on."""
        return self._admin_key is not None or bool(self._valid_keys())

    def log_in(self, key: str | None, name: str | None, address: str) -> tuple[Person, str] | None:
        """Return who logs in and the content of their session cookie, or None where the key is wrong."""
        if key:
            person = self._find(Credentials(key), address)
            by = "setting" if self._is_admin_key(key) else "key"
        else:
            wanted = check_name(name or LOCAL, "A person")
            person, by = (None if self.key_required() else Person(wanted, "admin")), "name"
        if person is None:
            return None
        return person, self.sessions.seal({"name": person.name, "by": by, "key": _fingerprint(key)})

    def log_out(self, cookie: str) -> None:
        """End the session of a cookie; other servers notice within the seconds that they cache."""
        self.sessions.end(cookie)
        with self._lock:
            for credentials in [known for known in self._cache if known.cookie == cookie]:
                del self._cache[credentials]

    def _find(self, credentials: Credentials, address: str) -> Person | None:
        """Return whose credentials these are.

        After too many wrong keys an address has to wait, and until then no key is looked up, not even a right
        one: the answer would tell it from the wrong ones. Keys in use are cached, and go on.
        """
        with self._lock:
            is_cached, person = credentials in self._cache, self._cache.get(credentials)
        if person is None and credentials.key is not None:
            _refuse_if(self._wrong_keys.wait_for(address, take=False))
        if not is_cached:
            person = self._look_up(credentials)
            with self._lock:
                self._cache[credentials] = person
        if person is None and credentials.key is not None:
            _refuse_if(self._wrong_keys.wait_for(address))
        return person

    def _look_up(self, credentials: Credentials) -> Person | None:
        if credentials.key is not None:
            if self._is_admin_key(credentials.key):
                return Person("admin", "admin")
            return _person(self._keys.check(credentials.key))
        if credentials.cookie is not None:
            person = self._of_session(credentials.cookie)
            if person is not None:
                return person
        return None if self.key_required() else Person(LOCAL, "admin")

    def _of_session(self, cookie: str) -> Person | None:
        """Return the person of a cookie, with the role that their key has now."""
        content = self.sessions.open(cookie)
        if content is None:
            return None
        name, by = str(content.get("name", "")), content.get("by")
        if by == "setting":  # the key may have been changed since
            is_same = content.get("key") == _fingerprint(self._admin_key)
            return Person(name, "admin") if self._admin_key is not None and is_same else None
        if by == "key":
            return _person(next((key for key in self._valid_keys() if key.name == name), None))
        return None if self.key_required() else Person(name, "admin")

    def _valid_keys(self) -> list[Key]:
        return [key for key in self._keys.all() if key.revoked_at is None]

    def _is_admin_key(self, key: str) -> bool:
        return self._admin_key is not None and hmac.compare_digest(key.encode(), self._admin_key.encode())


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _fingerprint(key: str | None) -> str:
    """Return what is equal for equal keys, and does not give the key away."""
    return hashlib.sha256(f"openworld session {key}".encode()).hexdigest()[:32]


def _person(key: Key | None) -> Person | None:
    return None if key is None else Person(key.name, key.role)


def _refuse_if(wait: float) -> None:
    if wait:
        retry = {"Retry-After": str(max(1, round(wait)))}
        raise HTTPException(429, "Too many requests: wait a little.", retry)
