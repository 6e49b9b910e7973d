"""Exports: labelled samples, the event log and the model as files."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query, Response
from starlette.responses import StreamingResponse

from openworld.service.api.errors import errors
from openworld.service.auth.authorization import Viewer
from openworld.service.state import Service
from openworld.service.world import World

router = APIRouter(prefix="/v1/export", tags=["export"], responses=errors(401, 403, 422, 429))

NDJSON, BINARY = "application/x-ndjson", "application/octet-stream"


@router.get("/labelled", response_class=Response, responses={200: {"content": {NDJSON: {}, BINARY: {}}}})
def export_labelled(
    service: Service,
    _: Viewer,
    format: Annotated[Literal["ndjson", "npz"], Query(description="Lines of JSON, or X and y.")] = "ndjson",
) -> Response:
    """Return every labelled sample with its feature."""
    if format == "npz":
        return _file(labelled_npz(service.world), "labelled.npz", BINARY)
    return _file(labelled_lines(service.world), "labelled.ndjson", NDJSON)


@router.get("/log", response_class=Response, responses={200: {"content": {NDJSON: {}}}})
def export_log(service: Service, _: Viewer) -> Response:
    """Return every event, oldest first, as lines of JSON."""
    return _file(log_lines(service.world), "log.ndjson", NDJSON)


@router.get("/model", response_class=Response, responses={200: {"content": {BINARY: {}}}})
def export_model(service: Service, _: Viewer) -> Response:
    """Return the model in use as a file that `openworld.load` reads."""
    return _file(model_file(service.world), "model.ow", BINARY)


def _file(parts: Iterator[bytes], name: str, media_type: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(parts, media_type=media_type, headers=headers)


# -- formats --------------------------------------------------------------------------------------


def labelled_lines(world: World) -> Iterator[bytes]:
    """Yield every labelled sample with its feature as a line of JSON."""
    for sample, feature in world.pool.labelled():
        yield _line({**dataclasses.asdict(sample), "feature": feature.tolist()})


def labelled_npz(world: World) -> Iterator[bytes]:
    """Yield the labelled samples as a .npz file with X, y and ids."""
    found = list(world.pool.labelled())
    file = io.BytesIO()
    np.savez(
        file,
        X=np.array([feature for _, feature in found]).reshape(len(found), world.model.n_features),
        y=np.array([sample.label for sample, _ in found], dtype=str),
        ids=np.array([sample.id for sample, _ in found], dtype=np.int64),
    )
    yield file.getvalue()


def log_lines(world: World) -> Iterator[bytes]:
    """Yield every event as a line of JSON, oldest first."""
    for event in world.history.export():
        yield _line(dataclasses.asdict(event))


def model_file(world: World) -> Iterator[bytes]:
    """Yield the model in use as a file that `openworld.load` reads."""
    yield world.model.to_bytes()


FORMS: dict[tuple[str, str], Callable[[World], Iterator[bytes]]] = {
    ("model", ".ow"): model_file,
    ("labelled", ".ndjson"): labelled_lines,
    ("labelled", ".npz"): labelled_npz,
    ("log", ".ndjson"): log_lines,
}


def write(world: World, what: str, path: Path) -> None:
    """Write one of `FORMS` to a file."""
    with path.open("wb") as file:
        file.writelines(FORMS[what, path.suffix](world))


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, default=_plain, ensure_ascii=False).encode() + b"\n"


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} cannot be exported.")
