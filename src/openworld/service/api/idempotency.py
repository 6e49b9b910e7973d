"""The Idempotency-Key header: a client that got no answer may send its request again."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Annotated

from fastapi import Depends, Header, Request
from fastapi.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.responses import Response
from starlette.types import Scope

from openworld.service.auth.authorization import Person
from openworld.service.event_log import EventOutcome
from openworld.service.idempotency import IdempotencyKey
from openworld.service.state import Service, ServiceState

HEADER = "Idempotency-Key"
MAX_LENGTH = 200
DESCRIPTION = (
    "Any text, new for each request. The same request sent again under the same key is answered as before, "
    "and nothing is done twice. Kept for a day."
)


class IdempotentRequest:
    """A request that has its effect once under its key, if it has one."""

    def __init__(self, service: ServiceState, key: str | None, digest: str) -> None:
        self._store, self._key, self._digest = service.world.idempotency, key, digest
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
        str | None, Header(alias=HEADER, min_length=1, max_length=MAX_LENGTH, description=DESCRIPTION)
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
