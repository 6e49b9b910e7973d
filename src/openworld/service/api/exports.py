"""Exports: labeled samples, the event log and the model as files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Literal
from zipfile import ZipFile

from fastapi import APIRouter, Query, Response
from starlette.responses import StreamingResponse

from openworld.service.api.errors import errors
from openworld.service.auth.authorization import Viewer
from openworld.service.labeled_files import LABELED_FORMS, json_line
from openworld.service.state import Service
from openworld.service.world import World

router = APIRouter(prefix="/v1/export", tags=["export"], responses=errors(401, 403, 422, 429))

NDJSON, BINARY = "application/x-ndjson", "application/octet-stream"
_LABELED_FILES = {
    "ndjson": ("labeled.ndjson", NDJSON),
    "npz": ("labeled.npz", BINARY),
    "csv": ("labeled.csv", "text/csv"),
    "parquet": ("labeled.parquet", BINARY),
    "zip": ("labeled.zip", "application/zip"),
    "label-studio": ("label-studio.json", "application/json"),
}
_MEDIA_TYPES: dict[str, dict[str, object]] = {media_type: {} for _, media_type in _LABELED_FILES.values()}


@router.get("/labeled", response_class=Response, responses={200: {"content": _MEDIA_TYPES}})
def export_labeled(
    service: Service,
    _: Viewer,
    format: Annotated[
        Literal["ndjson", "npz", "csv", "parquet", "zip", "label-studio"],
        Query(
            description="Lines of JSON; arrays X and y; tables; a zip with a folder for each class; tasks of "
            "Label Studio."
        ),
    ] = "ndjson",
) -> Response:
    """Return every labeled sample."""
    return _file(LABELED_FORMS[format](service.world), *_LABELED_FILES[format])


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


def log_lines(world: World) -> Iterator[bytes]:
    """Yield every event as a line of JSON, oldest first."""
    for event in world.history.export():
        yield json_line(dataclasses.asdict(event))


def model_file(world: World) -> Iterator[bytes]:
    """Yield the model in use as a file that `openworld.load` reads."""
    yield world.model.to_bytes()


FORMS: dict[tuple[str, str], Callable[[World], Iterator[bytes]]] = {
    ("model", ".ow"): model_file,
    ("labeled", ".json"): LABELED_FORMS["label-studio"],
    ("labeled", ""): LABELED_FORMS["zip"],  # unpacked into a folder
    **{("labeled", f".{name}"): form for name, form in LABELED_FORMS.items() if name != "label-studio"},
    ("log", ".ndjson"): log_lines,
}


def write(world: World, what: str, path: Path) -> None:
    """Write one of `FORMS` to a file; without an ending, to a folder."""
    parts = FORMS[what, path.suffix](world)
    if path.suffix:
        with path.open("wb") as file:
            file.writelines(parts)
        return
    with TemporaryFile() as packed:
        packed.writelines(parts)
        ZipFile(packed).extractall(path)
