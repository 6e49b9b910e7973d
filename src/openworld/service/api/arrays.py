"""The fast way to recognize: an array as it is in memory, `.npy` or Arrow, and JSON back.

A plain Starlette route, without pydantic and dependencies: for one vector they would take longer than the
recognition.
"""

from __future__ import annotations

import io
import math
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
from fastapi import HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from numpy.typing import NDArray
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from openworld.data.npy_header import read_header
from openworld.service.api.errors import Error
from openworld.service.api.idempotency import DESCRIPTION, HEADER, MAX_LENGTH, IdempotentRequest, digest_of
from openworld.service.api.recognize import check_batch, check_may_remember
from openworld.service.state import get_state
from openworld.service.validation import Refused

PATH = "/v1/recognize.npy"
ARROW = "application/vnd.apache.arrow.stream"

_MAGIC = b"\x93NUMPY"
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


async def recognize_array(request: Request) -> Response:
    """Name each row of an array of shape (n, D) or (D,), or answer unknown."""
    request.scope["route"] = route  # for metrics and log; Starlette, unlike FastAPI, does not set it
    service = get_state(request)
    person = await service.auth.authorize(request, "viewer")
    remember, nearest = _options(request.scope["query_string"])
    check_may_remember(person, remember)
    body = await request.body()
    X = read_npy(body) if body.startswith(_MAGIC) else await run_in_threadpool(_read_other, request, body)
    check_batch(len(X), service.settings.max_batch)
    key = request.headers.get(HEADER)
    idempotent = IdempotentRequest(
        service, _checked(key), "" if key is None else digest_of(request.scope, body)
    )
    return await idempotent.reply(
        person, lambda: service.batcher.recognize(X, remember=remember, nearest=nearest)
    )


class _Endpoint:
    """An ASGI application: Starlette's wrapper of a function takes a fifth of the time of a request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await recognize_array(Request(scope, receive))
        await response(scope, receive, send)


route = Route(PATH, _Endpoint(), methods=["POST"])


def _checked(key: str | None) -> str | None:
    if key is not None and not 0 < len(key) <= MAX_LENGTH:
        raise HTTPException(422, f"{HEADER} is a text of 1 to {MAX_LENGTH} characters.")
    return key


def _options(query: bytes) -> tuple[bool, int]:
    if not query:
        return True, 5
    given = dict(parse_qsl(query.decode("latin-1")))
    remember, nearest = given.get("remember", "true").lower(), given.get("nearest", "5")
    if remember not in _FLAGS:
        raise HTTPException(422, f"remember is true or false; got {remember!r}.")
    if not (nearest.isascii() and nearest.isdecimal() and len(nearest) < 3 and int(nearest) <= 50):
        raise HTTPException(422, f"nearest is a number from 0 to 50; got {nearest!r}.")
    return _FLAGS[remember], int(nearest)


def read_npy(body: bytes) -> NDArray[Any]:
    """Return the array of a .npy file, as rows.

    Raises
    ------
    Refused
        If it holds Python objects, or is longer or shorter than it says.
    """
    width = 2 if body[6:7] == b"\x01" else 4
    start = 8 + width + int.from_bytes(body[8 : 8 + width], "little")
    shape, dtype = _header(body[:start])
    if len(body) - start != math.prod(shape) * dtype.itemsize:
        raise Refused(f"The .npy file is cut off, or too long, for an array of shape {shape}.")
    return np.frombuffer(body, dtype, offset=start).reshape(shape)


@lru_cache(256)
def _header(header: bytes) -> tuple[tuple[int, ...], np.dtype[Any]]:
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


def read_arrow(body: bytes) -> NDArray[Any]:
    """Return the first column of an Arrow stream, lists of numbers of one length, as rows."""
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError:
        raise HTTPException(415, "Arrow needs pyarrow on the server: send .npy.") from None
    try:
        with pyarrow.ipc.open_stream(body) as stream:
            table = stream.read_all()
        table.validate(full=True)  # offsets that point elsewhere in memory are believed otherwise
        column = table.column(0).combine_chunks()
        lengths = pyarrow.compute.list_value_length(column).fill_null(-1).to_numpy()
        values = column.flatten()
    except (pyarrow.ArrowException, ValueError, IndexError, AttributeError, OSError) as error:
        raise Refused(
            f"The body is not an Arrow stream with a column of lists of numbers: {error}"
        ) from error
    n_numbers = int(lengths[0]) if len(lengths) else 0
    wrong = np.flatnonzero(lengths != n_numbers) if n_numbers > 0 else np.arange(len(lengths))
    if len(wrong):
        raise Refused(f"Row {wrong[0]} is missing, or is not a list of as many numbers as row 0.")
    if values.null_count:
        missing = values.is_null().to_numpy(zero_copy_only=False)
        raise Refused(f"Row {int(missing.argmax()) // n_numbers} has a number that is missing.")
    rows: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    if rows.dtype.kind not in "fiub":
        raise Refused(f"The rows must be lists of numbers, not of {values.type}.")
    return rows.reshape(len(column), -1)


def description() -> dict[str, Any]:
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
                    "name": HEADER,
                    "in": "header",
                    "description": DESCRIPTION,
                    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_LENGTH},
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
