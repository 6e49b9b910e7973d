"""Requests that may come twice: a client that got no answer sends its request again, under the same key."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from fastapi.concurrency import run_in_threadpool
from pydantic_core import to_json
from starlette.datastructures import UploadFile
from starlette.responses import Response
from starlette.types import Scope

from openworld.service.auth.authorization import Person
from openworld.service.once import Asked
from openworld.service.results import Outcome
from openworld.service.state import Service, State

HEADER = "Idempotency-Key"
LONGEST = 200
DESCRIPTION = (
    "Any text, new for each request. The same request sent again under the same key is answered as before, "
    "and nothing is done twice. Kept for a day."
)


class Repeatable:
    """A request that is done once under its key, if it has one."""

    def __init__(self, service: State, key: str | None, digest: str) -> None:
        self._once, self._key, self._digest = service.world.once, key, digest
        self._parts = count()

    def act(self, person: Person, act: Callable[[], Outcome]) -> Outcome:
        """Do an act, one of perhaps several of this request; or tell what it did before."""
        if self._key is None:
            return act()
        return self._once.do(Asked(person.name, self._key, self._digest, next(self._parts)), act)

    async def reply(self, person: Person, answer: Callable[[], Awaitable[dict[str, Any]]]) -> Any:
        """Return an answer, or a response with what was answered before."""
        if self._key is None:
            return await answer()
        asked = Asked(person.name, self._key, self._digest)
        before = await run_in_threadpool(self._once.answer, asked)
        if before is not None:
            return Response(before, media_type="application/json")
        found = await answer()
        await run_in_threadpool(self._once.keep, asked, to_json(found).decode())
        return found


async def _repeatable(
    request: Request,
    service: Service,
    key: Annotated[
        str | None, Header(alias=HEADER, min_length=1, max_length=LONGEST, description=DESCRIPTION)
    ] = None,
) -> Repeatable:
    return Repeatable(service, key, "" if key is None else await _digest_of(request))


async def _digest_of(request: Request) -> str:
    if not request.headers.get("content-type", "").startswith("multipart/"):
        return digest_of(request.scope, await request.body())
    parts: list[bytes] = []  # what stands between them in a form is not the same when it is sent again
    for name, value in (await request.form()).multi_items():
        parts.append(name.encode())
        if isinstance(value, UploadFile):
            parts += [(value.filename or "").encode(), await value.read()]
            await value.seek(0)
        else:
            parts.append(value.encode())
    return digest_of(request.scope, *parts)


def digest_of(scope: Scope, *body: bytes) -> str:
    """Return what is the same for requests that ask the same."""
    digest = hashlib.sha256()
    for part in (scope["method"].encode(), scope["path"].encode(), scope["query_string"], *body):
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()


Repeated = Annotated[Repeatable, Depends(_repeatable)]
