"""Import and export of files."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, File, Query, Response, UploadFile
from fastapi.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from openworld.data.errors import DataError
from openworld.service.api.errors import errors
from openworld.service.api.recognize import check_batch, printable
from openworld.service.dependencies import Labeler, Service, ServiceState, Viewer
from openworld.service.export import LABELED_FORMS, log_lines, model_file
from openworld.service.intake import ENDINGS, Intake, IntakeSummary, ending, open_upload
from openworld.service.validation import LONGEST_NAME, Conflict, Refused

export_router = APIRouter(prefix="/v1/export", tags=["export"], responses=errors(401, 403, 422, 429))

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
import_router = APIRouter(prefix="/v1", tags=["import"], responses=errors(400, 401, 403, 413, 422, 429))

MOST_FILES = 1000
Files = Annotated[
    list[UploadFile], File(description="Pictures, .zip, .csv, .txt, .jsonl, .json, .parquet, .npy.")
]


# -- export ---------------------------------------------------------------------------------------


@export_router.get("/labeled", response_class=Response, responses={200: {"content": _MEDIA_TYPES}})
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


@export_router.get("/log", response_class=Response, responses={200: {"content": {NDJSON: {}}}})
def export_log(service: Service, _: Viewer) -> Response:
    """Return every event, oldest first, as lines of JSON."""
    return _file(log_lines(service.world), "log.ndjson", NDJSON)


@export_router.get("/model", response_class=Response, responses={200: {"content": {BINARY: {}}}})
def export_model(service: Service, _: Viewer) -> Response:
    """Return the model in use as a file that `openworld.load` reads."""
    return _file(model_file(service.world), "model.ow", BINARY)


def _file(parts: Iterator[bytes], name: str, media_type: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(parts, media_type=media_type, headers=headers)


# -- formats --------------------------------------------------------------------------------------


# -- import ---------------------------------------------------------------------------------------


@import_router.post("/import", response_class=Response, responses={200: {"content": {NDJSON: {}}}})
async def import_files(
    files: Files,
    service: Service,
    person: Labeler,
    labels: Annotated[
        bool, Query(description="Learn the labels in the files; without it all samples are recognized.")
    ] = True,
    group_column: Annotated[
        str | None,
        Query(
            max_length=LONGEST_NAME,
            description="The column of a table with the same value in near copies, such as the frames of a "
            "video; `folder` if each sub-folder of a class in a zip is a group.",
        ),
    ] = None,
) -> Response:
    """Take in files: labeled samples are learned, others recognized, and the unknown go to the pool.

    A label is the folder of a picture in a zip, the column `label` of a table, or the choice in a task of
    Label Studio. The answer is lines of JSON, each with what is done so far; the last has `"finished": true`
    and names what was refused. The same files again change nothing.
    """
    check_batch(len(files), MOST_FILES)
    folder = TemporaryDirectory(prefix="openworld-")  # FastAPI closes the files before the answer is sent
    kept = await run_in_threadpool(_keep, files, Path(folder.name))
    intake = Intake(
        service.world, service.inputs, person.name, answered=service.metrics.imported, labels=labels
    )

    async def lines() -> AsyncIterator[bytes]:
        with folder:
            steps = _take_all(service, intake, kept, group_column)
            while await to_thread.run_sync(next, steps, None, limiter=service.inputs.turns) is not None:
                yield _line(intake.summary, finished=False)
            yield _line(intake.summary, finished=True)

    return StreamingResponse(lines(), media_type=NDJSON)


def _keep(files: list[UploadFile], folder: Path) -> list[tuple[str, Path | None]]:
    """Copy files to a folder under generated names; None for a kind of file that cannot be read."""
    kept: list[tuple[str, Path | None]] = []
    for number, file in enumerate(files):
        name = printable(file.filename) or f"file {number + 1}"
        kind = ending(name)
        path = None if kind is None else folder / f"{number}{kind}"
        if path is not None:
            with path.open("wb") as target:
                shutil.copyfileobj(file.file, target)
        kept.append((name, path))
    return kept


def _take_all(
    service: ServiceState, intake: Intake, kept: list[tuple[str, Path | None]], group_column: str | None
) -> Iterator[IntakeSummary]:
    """Take in the files one after the other; a file that cannot be used is listed as refused."""
    for name, path in kept:
        try:
            yield from _take(service, intake, name, path, group_column)
        except (DataError, Conflict, Refused, ImportError, UnicodeError) as error:
            intake.summary.total += 1
            intake.summary.refuse(name, _reason(error, name, path))
            yield intake.summary
    yield intake.finish()


def _reason(error: Exception, name: str, path: Path | None) -> str:
    """Return why a file is refused, without its path or name and without options of the command line."""
    places = "|".join(re.escape(str(place)) for place in (path, name))
    reason = re.sub(rf"^({places})(, [^:]*)?: ", "", str(error))
    return re.split(" (?:Use|If .*, use|Name .* with|Did you mean) --", reason)[0]


def _take(
    service: ServiceState, intake: Intake, name: str, path: Path | None, group_column: str | None
) -> Iterator[IntakeSummary]:
    if path is None:
        raise Refused(f"Files of this kind cannot be read. These can: {', '.join(ENDINGS)}.")
    most, takes_items = service.settings.max_import, service.world.model.extractor is not None
    data = open_upload(path, name, takes_items=takes_items, most=most, group_column=group_column)
    if len(data) > most:
        raise Refused(f"The file has {len(data):,} samples; the limit is {most:,}. Send it in parts.")
    yield from intake.take(data)


def _line(summary: IntakeSummary, *, finished: bool) -> bytes:
    record: dict[str, Any] = {"finished": finished, "done": summary.done, **asdict(summary)}
    record["refusals"] = [{"name": name, "reason": reason} for name, reason in summary.refusals]
    if not finished:
        del record["refusals"]
    return json.dumps(record, ensure_ascii=False).encode(errors="replace") + b"\n"  # surrogates in names
