"""Error responses: one shape for all, and never a 5xx for a mistake of the client."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, get_args

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from sqlalchemy.exc import InterfaceError, OperationalError
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import Response

from openworld.service.validation import Conflict, NotFound, Refused
from openworld.store import StorageError

WorldError = Refused | NotFound | Conflict | OperationalError | InterfaceError | StorageError
WORLD_ERRORS = get_args(WorldError)

_NAMES = {
    400: "bad request",
    401: "key needed",
    403: "not allowed",
    404: "not found",
    405: "method not allowed",
    409: "conflict",
    413: "too large",
    415: "unsupported media type",
    422: "refused",
    429: "too many requests",
    500: "internal error",
    503: "unavailable",
}
_HINTS = {
    401: "Create a key with: openworld key create NAME --role labeler",
    413: "Send fewer or smaller samples at a time.",
    429: "Wait as long as the Retry-After header says.",
    500: "Try again. If it happens again, report it with the error in the log.",
    503: "Try again in a moment; nothing acknowledged before is lost.",
}


class Error(BaseModel):
    """An error, in words for people."""

    error: str = Field(description="The kind of error.", examples=["refused"])
    detail: str = Field(
        description="What was wrong and where.",
        examples=["The model takes samples of 64 numbers; got an array of shape (1, 3)."],
    )
    hint: str | None = Field(None, description="What to do about it.")


def errors(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Return the description of errors for OpenAPI; any request can be answered by 400."""
    return {code: {"model": Error, "description": _NAMES[code].capitalize()} for code in (400, *codes)}


def error_response(error: StarletteHTTPException) -> Response:
    """Return an error as JSON."""
    code, headers = error.status_code, dict(error.headers or {})
    body = {
        "error": _NAMES.get(code, "error"),
        "detail": str(error.detail),
        "hint": _HINTS.get(code) if code != 503 or "Retry-After" in headers else None,
    }
    return Response(json.dumps(body), code, headers, "application/json")


def as_http(error: WorldError) -> HTTPException:
    """Return the HTTP error for an error of the world."""
    if isinstance(error, OperationalError | InterfaceError):
        return HTTPException(503, "The database does not respond.", {"Retry-After": "2"})
    if isinstance(error, StorageError):
        return HTTPException(503, str(error))
    code = 422 if isinstance(error, Refused) else 404 if isinstance(error, NotFound) else 409
    return HTTPException(code, str(error.args[0]) if error.args else None)


Page = Callable[[Request, StarletteHTTPException], Response | None]


def add_handlers(app: FastAPI, page: Page) -> None:
    """Respond to all errors in one shape; `page` returns a page instead, where a person looks at it."""

    def respond(request: Request, error: StarletteHTTPException) -> Response:
        return page(request, error) or error_response(error)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, StarletteHTTPException)
        allowed = _methods(request) if error.status_code == 405 else set()
        if allowed:  # Starlette names the methods of only one of the routes with this path
            error.headers = {"Allow": ", ".join(sorted(allowed))}
        return respond(request, error)

    async def world(request: Request, error: Exception) -> Response:
        assert isinstance(error, WORLD_ERRORS)
        return respond(request, as_http(error))

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return respond(request, HTTPException(422, _words(error)))

    async def failed(request: Request, _: Exception) -> Response:
        """Respond to an error of ours; Starlette logs it."""
        return respond(request, HTTPException(500, "The server made an error. Its log has the details."))

    app.add_exception_handler(Exception, failed)
    app.add_exception_handler(StarletteHTTPException, http)
    for kind in WORLD_ERRORS:
        app.add_exception_handler(kind, world)
    app.add_exception_handler(RequestValidationError, invalid)


def _methods(request: Request) -> set[str]:
    """Return the methods that the API has for the path of a request."""
    paths: dict[str, dict[str, Any]] = request.app.openapi()["paths"]
    return {
        method.upper()
        for path, operations in paths.items()
        for method in operations
        if re.fullmatch(re.sub(r"{\w+}", "[^/]+", path), request.url.path)
    }


def _words(error: RequestValidationError) -> str:
    """Describe in one line what is wrong with a request: three problems at most."""
    found = error.errors()
    parts = [f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in found[:3]]
    more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
    return "; ".join(parts) + more
