"""Authentication by API key or session cookie, roles, and rate limits."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, time
from typing import Any, NamedTuple, get_args

from cachetools import TTLCache
from fastapi import HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from itsdangerous import BadSignature, URLSafeTimedSerializer
from sqlalchemy.exc import IntegrityError

from openworld.service.replicas import Replicas
from openworld.service.settings import ServiceSettings
from openworld.service.validation import Conflict, NotFound, Refused, check_name
from openworld.store import Database, keys
from openworld.store.records import Key, Role

_MAX_NAMES = 10_000

ROLES: tuple[Role, ...] = get_args(Role)  # each may also do what those before it may
COOKIE = "openworld_session"

_ENDED = "ended sessions"
LOCAL = "local"

_CACHE_SECONDS = 5.0
_CACHE_SIZE = 1000
_WRONG_KEYS_PER_SECOND = 0.2
_WRONG_KEYS_AT_ONCE = 10


@dataclass(frozen=True)
class Person:
    """Who makes a request: the name of a key, or of whoever uses this machine while there are no keys."""

    name: str
    role: Role

    def may(self, role: Role) -> bool:
        """Return whether this person has a role, or a higher one."""
        return ROLES.index(self.role) >= ROLES.index(role)


class RateLimit:
    """A token bucket for each name, which fills at a steady rate; the longest unused is forgotten first.

    The package `limits` has windows but no token bucket (a burst after a pause, then a steady rate), and a
    hit of its in-memory storage takes several times as long.

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


class ApiKeys:
    """The API keys of a database; no open world is needed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, name: str, role: Role) -> str:
        """Create a key and return its secret."""
        name = check_name(name, "The name of a key")
        if role not in get_args(Role):
            raise Refused(f"A role is one of {', '.join(get_args(Role))}; got {role!r}.")
        try:
            with self._database.write() as connection:
                return keys.create_key(connection, name, role)
        except IntegrityError as error:
            raise Conflict(
                f"A key named {name!r} exists already, or existed before: choose another name."
            ) from error

    def check(self, secret: str) -> Key | None:
        """Return the key of a secret, unless there is none or it was revoked."""
        with self._database.read() as connection:
            return keys.find_key(connection, secret)

    def all(self) -> list[Key]:
        """List keys by name."""
        with self._database.read() as connection:
            return keys.key_list(connection)

    def revoke(self, name: str) -> None:
        """Revoke a key."""
        with self._database.write() as connection:
            revoked = keys.revoke_key(connection, name)
        if not revoked:
            raise NotFound(f"There is no key {name!r} to revoke.")


class Sessions:
    """Writes and reads the content of session cookies.

    Parameters
    ----------
    secret : str
        Signs the cookies; another one ends all sessions.
    max_age : float
        Seconds after which a session ends.
    replicas : Replicas
        Where all servers on the database see which sessions were ended.
    """

    def __init__(self, secret: str, max_age: float, replicas: Replicas) -> None:
        self._signer = URLSafeTimedSerializer(secret, salt="openworld session")
        self.max_age = max_age
        self._replicas, self._lock = replicas, threading.Lock()

    def seal(self, content: dict[str, str]) -> str:
        """Return the content as text for the cookie of a new session."""
        return str(self._signer.dumps({**content, "id": secrets.token_hex(8)}))

    def open(self, sealed: str) -> dict[str, Any] | None:
        """Return the content of a cookie; None if it is not ours, too old, or its session was ended."""
        try:
            content = self._signer.loads(sealed, max_age=int(self.max_age))
        except BadSignature:
            return None
        if not isinstance(content, dict) or content.get("id") in self._ended():
            return None
        return content

    def end(self, sealed: str) -> None:
        """End the session of a cookie, on all servers."""
        content = self.open(sealed)
        if content is None:
            return
        now = time()
        with self._lock, self._replicas.lock("sessions"):
            ended = {name: end for name, end in self._ended().items() if end > now}
            ended[str(content.get("id"))] = now + self.max_age
            self._replicas.share(_ENDED, json.dumps(ended).encode())

    def _ended(self) -> dict[str, float]:
        """Return the sessions that were ended, and when their cookies expire."""
        known = self._replicas.shared(_ENDED)
        return {} if known is None else dict(json.loads(known))


def session_secret(settings: ServiceSettings, replicas: Replicas) -> str:
    """Return the secret of the settings, or else the one that all servers on the database share."""
    if settings.session_secret is not None:
        return settings.session_secret.get_secret_value()
    known = replicas.shared("session secret")
    if known is None:
        known = replicas.share("session secret", secrets.token_urlsafe(32).encode("ascii"), replace=False)
    return known.decode("ascii")


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
            raise HTTPException(403, f"This needs the role {role}; {person.name} has the role {person.role}.")
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
        """Return whether a key is needed: as soon as one exists."""
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
        one: the answer would distinguish it from the wrong ones. Keys in use are cached and keep working.
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
    """Return a hash of a key, to recognize the key without storing it."""
    return hashlib.sha256(f"openworld session {key}".encode()).hexdigest()[:32]


def _person(key: Key | None) -> Person | None:
    return None if key is None else Person(key.name, key.role)


def _refuse_if(wait: float) -> None:
    if wait:
        retry = {"Retry-After": str(max(1, round(wait)))}
        raise HTTPException(429, "Too many requests: wait as long as the Retry-After header says.", retry)
