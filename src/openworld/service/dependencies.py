"""What routes depend on: the running service, the role that a person needs, idempotency keys."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Annotated

from fastapi import Depends, Header, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import TypeAdapter
from sqlalchemy import Connection
from starlette.datastructures import UploadFile
from starlette.responses import Response
from starlette.types import Scope

from openworld.service.auth import Authenticator, Person
from openworld.service.batcher import Batcher
from openworld.service.clustering_job import ClusteringJob
from openworld.service.event_log import EventLog
from openworld.service.inputs import Inputs
from openworld.service.metrics import Metrics
from openworld.service.notifications import Broadcast
from openworld.service.settings import ServiceSettings
from openworld.service.validation import Refused
from openworld.service.world import World
from openworld.service.world_event import EventOutcome
from openworld.store import idempotency
from openworld.store.idempotency import StoredAnswer
from openworld.store.records import Role

_OUTCOME = TypeAdapter(EventOutcome)
KEY_HEADER = "Idempotency-Key"
MAX_KEY_LENGTH = 200
KEY_DESCRIPTION = (
    "Any text, new for each request. The same request sent again under the same key is answered as before, "
    "and nothing is done twice. Kept for a day."
)


@dataclass(frozen=True)
class ServiceState:
    """The parts of a running service; `app.state.service` of the application."""

    world: World
    settings: ServiceSettings
    auth: Authenticator
    inputs: Inputs
    batcher: Batcher
    clustering: ClusteringJob
    broadcast: Broadcast
    metrics: Metrics
    idempotency: IdempotencyStore

    def close(self) -> None:
        """Stop the background work."""
        self.broadcast.close()
        self.clustering.close()
        self.batcher.close()
        self.broadcast.join()


def get_state(request: Request) -> ServiceState:
    """Return the parts of the service that handles a request."""
    state: ServiceState = request.app.state.service
    return state


async def _service(request: Request) -> ServiceState:  # a plain function would be run in another thread
    return get_state(request)


Service = Annotated[ServiceState, Depends(_service)]


def _require(role: Role) -> Callable[[Request], Awaitable[Person]]:
    async def authorized(request: Request) -> Person:
        return await get_state(request).auth.authorize(request, role)

    return authorized


Viewer = Annotated[Person, Depends(_require("viewer"))]
Labeler = Annotated[Person, Depends(_require("labeler"))]
Admin = Annotated[Person, Depends(_require("admin"))]


# -- idempotency keys -----------------------------------------------------------------------------


@dataclass(frozen=True)
class IdempotencyKey:
    """The key of one event of a request.

    Attributes
    ----------
    who, key : str
        Keys are per person: others may use the same.
    digest : str
        Of the request: another request under the same key is refused.
    part : int
        The position of the event in a request that appends several.
    """

    who: str
    key: str
    digest: str
    part: int = 0

    @property
    def id(self) -> str:
        """The id in the database."""
        return hashlib.sha256(repr((self.who, self.key, self.part)).encode()).hexdigest()


class IdempotencyStore:
    """Stores answers for a day; the answer to an event in the event's own transaction."""

    def __init__(self, log: EventLog) -> None:
        self._log, self._database = log, log.database

    def run(self, key: IdempotencyKey, append: Callable[[], EventOutcome]) -> EventOutcome:
        """Append an event, or return the outcome of the first time. A refused request may be run again."""

        def store(connection: Connection, outcome: EventOutcome) -> None:
            answer = _OUTCOME.dump_json(outcome).decode()
            idempotency.put(connection, key.id, StoredAnswer(key.digest, answer))

        with self._log.exclusive(in_transaction=store):
            before = self.find(key)
            if before is not None:
                return _OUTCOME.validate_json(before)
            outcome = append()
            if outcome.event_id is None:  # nothing was appended, so the answer has no transaction yet
                with self._database.write() as connection:
                    store(connection, outcome)
            return outcome

    def find(self, key: IdempotencyKey) -> str | None:
        """Return the stored answer as JSON; raise `Refused` where it answers another request."""
        with self._database.read() as connection:
            found = idempotency.find(connection, key.id)
        if found is not None and found.digest != key.digest:
            raise Refused(f"The Idempotency-Key {key.key!r} was used for another request: use a new one.")
        return None if found is None else found.answer

    def store(self, key: IdempotencyKey, answer: str) -> None:
        """Store the answer to a request that appends no event, unless there is one already."""
        with self._database.write() as connection:
            if idempotency.find(connection, key.id) is None:
                idempotency.put(connection, key.id, StoredAnswer(key.digest, answer))


class IdempotentRequest:
    """A request that has its effect once under its key, if it has one."""

    def __init__(self, service: ServiceState, key: str | None, digest: str) -> None:
        self._store, self._key, self._digest = service.idempotency, key, digest
        self._parts = count()

    def append(self, person: Person, append: Callable[[], EventOutcome]) -> EventOutcome:
        """Append one of the events of this request, or return its outcome of the first time."""
        if self._key is None:
            return append()
        key = IdempotencyKey(person.name, self._key, self._digest, next(self._parts))
        return self._store.run(key, append)

    async def reply(self, person: Person, answer: Callable[[], Awaitable[bytes]]) -> Response:
        """Respond with an answer in JSON, or with the answer of the first time."""
        if self._key is None:
            return Response(await answer(), media_type="application/json")
        key = IdempotencyKey(person.name, self._key, self._digest)
        before = await run_in_threadpool(self._store.find, key)
        if before is None:
            before = (await answer()).decode()
            await run_in_threadpool(self._store.store, key, before)
        return Response(before, media_type="application/json")


async def _idempotent(
    request: Request,
    service: Service,
    key: Annotated[
        str | None,
        Header(alias=KEY_HEADER, min_length=1, max_length=MAX_KEY_LENGTH, description=KEY_DESCRIPTION),
    ] = None,
) -> IdempotentRequest:
    return IdempotentRequest(service, key, "" if key is None else await _digest_of(request))


async def _digest_of(request: Request) -> str:
    if not request.headers.get("content-type", "").startswith("multipart/"):
        return digest_of(request.scope, await request.body())
    parts: list[bytes] = []  # the boundary between the parts of a form differs when it is sent again
    for name, value in (await request.form()).multi_items():
        parts.append(name.encode())
        if isinstance(value, UploadFile):
            parts += [(value.filename or "").encode(), await value.read()]
            await value.seek(0)
        else:
            parts.append(value.encode())
    return digest_of(request.scope, *parts)


def digest_of(scope: Scope, *body: bytes) -> str:
    """Return a hash that is equal for requests that ask the same."""
    digest = hashlib.sha256()
    for part in (scope["method"].encode(), scope["path"].encode(), scope["query_string"], *body):
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()


Idempotent = Annotated[IdempotentRequest, Depends(_idempotent)]
