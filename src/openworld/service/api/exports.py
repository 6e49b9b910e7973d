"""Taking out what was learnt: labelled samples, the log, the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from starlette.responses import StreamingResponse

from openworld.service.api.errors import errors
from openworld.service.auth.authorization import Viewer
from openworld.service.exporting import labelled_lines, labelled_npz, log_lines, model_file
from openworld.service.state import Service

router = APIRouter(prefix="/v1/export", tags=["export"], responses=errors(401, 403, 422, 429))

NDJSON, BINARY = "application/x-ndjson", "application/octet-stream"


@router.get("/labelled", response_class=Response, responses={200: {"content": {NDJSON: {}, BINARY: {}}}})
def labelled(
    service: Service,
    _: Viewer,
    format: Annotated[Literal["ndjson", "npz"], Query(description="Lines of JSON, or X and y.")] = "ndjson",
) -> Response:
    """Return every labelled sample with its feature."""
    if format == "npz":
        return _file(labelled_npz(service.world), "labelled.npz", BINARY)
    return _file(labelled_lines(service.world), "labelled.ndjson", NDJSON)


@router.get("/log", response_class=Response, responses={200: {"content": {NDJSON: {}}}})
def log(service: Service, _: Viewer) -> Response:
    """Return every act, oldest first, as lines of JSON."""
    return _file(log_lines(service.world), "log.ndjson", NDJSON)


@router.get("/model", response_class=Response, responses={200: {"content": {BINARY: {}}}})
def model(service: Service, _: Viewer) -> Response:
    """Return the model in force as a file that `openworld.load` reads."""
    return _file(model_file(service.world), "model.ow", BINARY)


def _file(parts: Iterator[bytes], name: str, media_type: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(parts, media_type=media_type, headers=headers)
