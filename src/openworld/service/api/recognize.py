"""Routes to recognize and to learn: vectors and texts as JSON, pictures as files.

JSON is parsed by pydantic from the bytes of the body, after the person is authorized: FastAPI would parse it
first, by Python's slower `json`, for everyone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import numpy as np
from fastapi import APIRouter, Depends, File, Form, HTTPException, Query, Request, UploadFile
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from openworld.service.api.errors import errors
from openworld.service.api.idempotency import Idempotent
from openworld.service.api.request_bodies import SMALL
from openworld.service.auth.authorization import Labeler, Person, Viewer
from openworld.service.event_log import EventOutcome
from openworld.service.schemas import LearnBody, RecognizeBody, RecognizeResponse
from openworld.service.state import Service, ServiceState
from openworld.service.validation import Refused
from openworld.store.records import SampleContent

router = APIRouter(prefix="/v1", tags=["recognize and learn"], responses=errors(400, 401, 403, 413, 422, 429))

_FEW = 64  # vectors that take less time to convert than to hand to a thread

Body = TypeVar("Body", bound=BaseModel)
Files = Annotated[list[UploadFile], File(description="Pictures: JPEG, PNG, WebP, ...")]


def _parsed(schema: type[Body]) -> Callable[[Request], Awaitable[Body]]:
    async def parse(request: Request) -> Body:
        body = await request.body()
        if not request.headers.get("content-type", "").startswith("application/json"):
            raise HTTPException(422, "Send JSON, with Content-Type: application/json.")
        try:
            if len(body) <= SMALL:
                return schema.model_validate_json(body)
            return await run_in_threadpool(schema.model_validate_json, body)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False, include_input=False)
            raise RequestValidationError(
                [{**one, "loc": ("body", *one["loc"])} for one in problems]
            ) from None

    return parse


def _described(schema: type[BaseModel]) -> dict[str, Any]:
    """Return what OpenAPI says about a body that FastAPI does not parse."""
    content = {"application/json": {"schema": schema.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}


@router.post(
    "/recognize",
    response_model=RecognizeResponse,
    responses=errors(409),
    openapi_extra=_described(RecognizeBody),
)
async def recognize(
    service: Service,
    person: Viewer,
    request: Idempotent,
    body: Annotated[RecognizeBody, Depends(_parsed(RecognizeBody))],
) -> Response:
    """Name each sample or answer unknown; unknown ones go to the pool."""
    check_may_remember(person, body.remember)
    X, items = await _samples(body, service)
    return await request.reply(
        person, lambda: service.batcher.recognize(X, items, remember=body.remember, nearest=body.nearest)
    )


@router.post("/recognize/images", response_model=RecognizeResponse, responses=errors(409))
async def recognize_images(
    files: Files,
    service: Service,
    person: Viewer,
    request: Idempotent,
    remember: Annotated[bool, Query(description="Put the unknown into the pool.")] = True,
    nearest: Annotated[int, Query(ge=0, le=50)] = 5,
) -> Response:
    """Recognize pictures, with a model that was fitted on pictures."""
    check_may_remember(person, remember)
    X, items = await _pictures(files, service)
    return await request.reply(
        person, lambda: service.batcher.recognize(X, items, remember=remember, nearest=nearest)
    )


@router.post("/learn", responses=errors(409), openapi_extra=_described(LearnBody))
async def learn(
    service: Service,
    person: Labeler,
    request: Idempotent,
    body: Annotated[LearnBody, Depends(_parsed(LearnBody))],
) -> EventOutcome:
    """Learn labeled samples, of known and of new classes."""
    X, items = await _samples(body, service)
    return await run_in_threadpool(
        request.append, person, lambda: service.world.labels.learn(X, body.labels, person.name, items)
    )


@router.post("/learn/images", responses=errors(409))
async def learn_images(
    files: Files,
    labels: Annotated[list[str], Form(description="One for each picture, or one for all.")],
    service: Service,
    person: Labeler,
    request: Idempotent,
) -> EventOutcome:
    """Learn labeled pictures, with a model that was fitted on pictures."""
    X, items = await _pictures(files, service)
    names = labels * len(files) if len(labels) == 1 else labels
    return await run_in_threadpool(
        request.append, person, lambda: service.world.labels.learn(X, names, person.name, items)
    )


async def _samples(
    body: RecognizeBody | LearnBody, service: ServiceState
) -> tuple[NDArray[Any], list[SampleContent]]:
    if body.texts is not None:
        check_batch(len(body.texts), service.settings.max_batch)
        return await run_in_threadpool(service.inputs.texts, body.texts, body.source)
    vectors = body.vectors or []
    check_batch(len(vectors), service.settings.max_batch)
    n_features, items = service.batcher.n_features, [SampleContent(source=body.source)] * len(vectors)
    if len(vectors) <= _FEW:
        return _as_array(vectors, n_features), items
    return await run_in_threadpool(_as_array, vectors, n_features), items


async def _pictures(files: list[UploadFile], service: ServiceState) -> tuple[Any, list[SampleContent]]:
    check_batch(len(files), service.settings.max_images)
    read = [(printable(file.filename), await file.read()) for file in files]
    return await service.inputs.pictures_in_turn(read)


def printable(name: str | None) -> str | None:
    """Return what is printable of a file's name: it is shown, and never used as a path."""
    return "".join(letter for letter in name or "" if letter.isprintable())[:200] or None


def _as_array(vectors: list[list[float]], n_features: int) -> NDArray[np.float32]:
    for i, vector in enumerate(vectors):
        if len(vector) != n_features:
            raise Refused(f"The model takes samples of {n_features} numbers; vector {i} has {len(vector)}.")
    with np.errstate(over="ignore"):  # what does not fit becomes infinite, which is refused
        X = np.empty((len(vectors), n_features), dtype=np.float32)
        for row, vector in zip(X, vectors, strict=True):  # one by one: other threads have their turn
            row[:] = vector
        return X


def check_batch(n: int, most: int) -> None:
    """Refuse too many samples at once."""
    if n > most:
        raise HTTPException(413, f"{n:,} samples in a request; {most:,} are the most.")


def check_may_remember(person: Person, remember: bool) -> None:
    """Refuse to store what a viewer sends: they only look."""
    if remember and not person.may("labeler"):
        raise HTTPException(403, f"{person.name} is a viewer: ask with remember=false.")
