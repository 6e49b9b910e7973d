"""Routes to recognize and to learn: vectors and texts as JSON, pictures as files.

JSON is parsed by pydantic from the bytes of the body, after the person is authorized: FastAPI would parse it
first, by Python's slower `json`, for everyone.
"""

from __future__ import annotations

import io
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl

import numpy as np
from fastapi import APIRouter, Depends, File, Form, HTTPException, Query, Request, UploadFile
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from openworld.data.npy_header import read_header
from openworld.service.api.arrow import read_arrow
from openworld.service.api.errors import WORLD_ERRORS, Error, as_http, error_response, errors
from openworld.service.auth import Person
from openworld.service.dependencies import (
    KEY_DESCRIPTION,
    KEY_HEADER,
    MAX_KEY_LENGTH,
    Idempotent,
    IdempotentRequest,
    Labeler,
    Service,
    ServiceState,
    Viewer,
    digest_of,
    get_state,
)
from openworld.service.middleware import SMALL_BODY, read_body
from openworld.service.schemas import LearnBody, RecognizeBody, RecognizeResponse
from openworld.service.validation import LONGEST_NAME, Refused, check_group
from openworld.service.world_event import EventOutcome
from openworld.store.records import SampleContent

router = APIRouter(prefix="/v1", tags=["recognize and learn"], responses=errors(400, 401, 403, 413, 422, 429))

_FEW = 64  # so few vectors convert faster than a thread starts

Body = TypeVar("Body", bound=BaseModel)
Files = Annotated[list[UploadFile], File(description="Pictures: JPEG, PNG, WebP, ...")]
_GROUP = (
    "The group of all samples of the request. Samples of one group are near copies of each other, such as "
    "the pictures of a burst."
)
Group = Annotated[str | None, Query(max_length=LONGEST_NAME, description=_GROUP)]
ARRAY_PATH = "/v1/recognize.npy"
ARROW = "application/vnd.apache.arrow.stream"

_MAGIC = b"\x93NUMPY"
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


def _parsed(schema: type[Body]) -> Callable[[Request], Awaitable[Body]]:
    async def parse(request: Request) -> Body:
        body = await request.body()
        if not request.headers.get("content-type", "").startswith("application/json"):
            raise HTTPException(422, "Send JSON, with Content-Type: application/json.")
        try:
            if len(body) <= SMALL_BODY:
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
    group: Group = None,
) -> Response:
    """Name each sample or answer unknown; unknown ones go to the pool."""
    check_may_remember(person, body.remember)
    X, items = await _samples(body, group, service)
    return await request.reply(
        person, lambda: service.batcher.recognize(X, items, remember=body.remember, nearest=body.nearest)
    )


@router.post("/recognize/images", response_model=RecognizeResponse, responses=errors(409))
async def recognize_images(
    files: Files,
    service: Service,
    person: Viewer,
    request: Idempotent,
    remember: Annotated[bool, Query(description="Store the unknown samples in the pool.")] = True,
    nearest: Annotated[int, Query(ge=0, le=50)] = 5,
    group: Group = None,
) -> Response:
    """Recognize pictures, with a model that was fitted on pictures."""
    check_may_remember(person, remember)
    X, items = await _pictures(files, group, service)
    return await request.reply(
        person, lambda: service.batcher.recognize(X, items, remember=remember, nearest=nearest)
    )


@router.post("/learn", responses=errors(409), openapi_extra=_described(LearnBody))
async def learn(
    service: Service,
    person: Labeler,
    request: Idempotent,
    body: Annotated[LearnBody, Depends(_parsed(LearnBody))],
    group: Group = None,
) -> EventOutcome:
    """Learn labeled samples, of known and of new classes."""
    X, items = await _samples(body, group, service)
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
    group: Group = None,
) -> EventOutcome:
    """Learn labeled pictures, with a model that was fitted on pictures."""
    X, items = await _pictures(files, group, service)
    names = labels * len(files) if len(labels) == 1 else labels
    return await run_in_threadpool(
        request.append, person, lambda: service.world.labels.learn(X, names, person.name, items)
    )


async def _samples(
    body: RecognizeBody | LearnBody, group: str | None, service: ServiceState
) -> tuple[NDArray[Any], list[SampleContent]]:
    if group is not None and body.groups is not None:
        raise Refused("Give either the parameter group or groups in the body.")
    samples = body.texts if body.texts is not None else body.vectors or []
    check_batch(len(samples), service.settings.max_batch)
    groups = [check_group(group)] * len(samples)
    if body.groups is not None:
        groups = [check_group(one) for one in body.groups]
    if body.texts is not None:
        X, items = await run_in_threadpool(service.inputs.texts, body.texts, body.source)
        return X, _grouped(items, groups)
    vectors, n_features = body.vectors or [], service.batcher.n_features
    items = _grouped([SampleContent(source=body.source)] * len(vectors), groups)
    if len(vectors) <= _FEW:
        return _as_array(vectors, n_features), items
    return await run_in_threadpool(_as_array, vectors, n_features), items


async def _pictures(
    files: list[UploadFile], group: str | None, service: ServiceState
) -> tuple[Any, list[SampleContent]]:
    check_batch(len(files), service.settings.max_images)
    groups = [check_group(group)] * len(files)
    named = [(printable(file.filename), file.file) for file in files]
    X, items = await service.inputs.pictures_in_turn(named)
    return X, _grouped(items, groups)


def _grouped(items: list[SampleContent], groups: Sequence[str | None]) -> list[SampleContent]:
    if not any(groups):
        return items
    return [replace(item, group=group) for item, group in zip(items, groups, strict=True)]


def printable(name: str | None) -> str | None:
    """Return the printable characters of a file name: it is shown, never used as a path."""
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
    """Raise 413 if there are too many samples."""
    if n > most:
        raise HTTPException(413, f"The request has {n:,} samples or files; the limit is {most:,}.")


def check_may_remember(person: Person, remember: bool) -> None:
    """Raise 403 if a viewer asks to store samples."""
    if remember and not person.may("labeler"):
        raise HTTPException(403, f"{person.name} is a viewer and cannot store samples: send remember=false.")


# -- arrays ---------------------------------------------------------------------------------------


async def recognize_array(request: Request) -> Response:
    """Name each row of an array of shape (n, D) or (D,), or answer unknown."""
    request.scope["route"] = array_route  # for metrics and log; Starlette, unlike FastAPI, does not set it
    service = get_state(request)
    person = await service.auth.authorize(request, "viewer")
    remember, nearest, group = _array_options(request.scope["query_string"])
    check_may_remember(person, remember)
    body = await read_body(request.receive)
    X = read_npy(body) if body.startswith(_MAGIC) else await run_in_threadpool(_read_other, request, body)
    check_batch(len(X), service.settings.max_batch)
    items = None if group is None else [SampleContent(group=group)] * len(X)
    key = request.headers.get(KEY_HEADER)
    idempotent = IdempotentRequest(
        service, _checked_key(key), "" if key is None else digest_of(request.scope, body)
    )
    return await idempotent.reply(
        person, lambda: service.batcher.recognize(X, items, remember=remember, nearest=nearest)
    )


array_route = Route(ARRAY_PATH, recognize_array, methods=["POST"])


class ArrayRequests:
    """Middleware that answers requests with arrays.

    The route does the same, but the way to it, through FastAPI's handling of errors and its list of routes,
    takes as long as all else that is done for one vector.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request with an array, or pass it on."""
        if scope["type"] != "http" or scope["path"] != ARRAY_PATH or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        try:
            response = await recognize_array(Request(scope, receive))
        except HTTPException as error:
            response = error_response(error)
        except WORLD_ERRORS as error:
            response = error_response(as_http(error))
        await response(scope, receive, send)


def _checked_key(key: str | None) -> str | None:
    if key is not None and not 0 < len(key) <= MAX_KEY_LENGTH:
        raise HTTPException(422, f"{KEY_HEADER} is a text of 1 to {MAX_KEY_LENGTH} characters.")
    return key


def _array_options(query: bytes) -> tuple[bool, int, str | None]:
    if not query:
        return True, 5, None
    given = dict(parse_qsl(query.decode("latin-1")))
    remember, nearest = given.get("remember", "true").lower(), given.get("nearest", "5")
    if remember not in _FLAGS:
        raise HTTPException(422, f"remember is true or false; got {remember!r}.")
    if not (nearest.isascii() and nearest.isdecimal() and len(nearest) < 3 and int(nearest) <= 50):
        raise HTTPException(422, f"nearest is a number from 0 to 50; got {nearest!r}.")
    return _FLAGS[remember], int(nearest), check_group(given.get("group"))


def read_npy(body: bytes) -> NDArray[Any]:
    """Return the array of a .npy file, as rows.

    Raises
    ------
    Refused
        If it holds Python objects, or is longer or shorter than it says.
    """
    width = 2 if body[6:7] == b"\x01" else 4
    start = 8 + width + int.from_bytes(body[8 : 8 + width], "little")
    shape, dtype = _npy_header(body[:start])
    if len(body) - start != math.prod(shape) * dtype.itemsize:
        raise Refused(f"The .npy file is cut off, or too long, for an array of shape {shape}.")
    return np.frombuffer(body, dtype, offset=start).reshape(shape)


@lru_cache(256)
def _npy_header(header: bytes) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and type of an array; requests repeat the same few headers."""
    file = io.BytesIO(header)
    try:
        shape, fortran_order, dtype = read_header(file, 1000)
    except Exception as error:  # a damaged head shows itself in many ways
        raise Refused(f"The head of the .npy file cannot be read: {error}") from error
    if dtype.kind not in "fiub" or len(shape) not in (1, 2) or (fortran_order and len(shape) == 2):
        raise Refused(
            f"Send numbers of shape (n, D) or (D,) in C order; got {dtype} of shape {shape}"
            f"{' in Fortran order' if fortran_order else ''}."
        )
    return (shape if len(shape) == 2 else (1, *shape)), dtype


def _read_other(request: Request, body: bytes) -> NDArray[Any]:
    if not request.headers.get("content-type", "").startswith("application/vnd.apache.arrow"):
        raise Refused("The body is not a .npy file: send what numpy.save writes, or Arrow with its type.")
    return read_arrow(body)


def array_description() -> dict[str, Any]:
    """Return what OpenAPI says about this route."""
    failure = {"application/json": {"schema": {"$ref": f"#/components/schemas/{Error.__name__}"}}}
    binary = {"schema": {"type": "string", "format": "binary"}}
    return {
        "post": {
            "tags": ["recognize and learn"],
            "summary": "Recognize Array",
            "description": "Name each row of an array of shape (n, D) or (D,), or answer unknown.",
            "operationId": "recognize_array",
            "parameters": [
                {"name": "remember", "in": "query", "schema": {"type": "boolean", "default": True}},
                {
                    "name": "nearest",
                    "in": "query",
                    "schema": {"type": "integer", "minimum": 0, "maximum": 50, "default": 5},
                },
                {
                    "name": "group",
                    "in": "query",
                    "description": _GROUP,
                    "schema": {"type": "string", "maxLength": LONGEST_NAME},
                },
                {
                    "name": KEY_HEADER,
                    "in": "header",
                    "description": KEY_DESCRIPTION,
                    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH},
                },
            ],
            "requestBody": {
                "required": True,
                "content": {"application/octet-stream": binary, ARROW: binary},
            },
            "responses": {
                "200": {
                    "description": "The answers.",
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/RecognizeResponse"}}
                    },
                },
                **{
                    str(code): {"description": text, "content": failure}
                    for code, text in (
                        (400, "Bad request"),
                        (401, "Key needed"),
                        (403, "Not allowed"),
                        (413, "Too large"),
                        (415, "Unsupported media type"),
                        (422, "Refused"),
                        (429, "Too many requests"),
                    )
                },
            },
        }
    }
