"""Import: files of pictures, texts or vectors, with or without labels, with progress as it goes on."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, File, Query, UploadFile
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from openworld.data.errors import DataError
from openworld.service.api.errors import errors
from openworld.service.api.exports import NDJSON
from openworld.service.api.recognize import check_batch, printable
from openworld.service.auth.authorization import Labeler
from openworld.service.intake import ENDINGS, Intake, IntakeSummary, ending, open_upload
from openworld.service.state import Service, ServiceState
from openworld.service.validation import Conflict, Refused

router = APIRouter(prefix="/v1", tags=["import"], responses=errors(400, 401, 403, 413, 422, 429))

MOST_FILES = 1000
Files = Annotated[
    list[UploadFile], File(description="Pictures, .zip, .csv, .txt, .jsonl, .json, .parquet, .npy.")
]


@router.post("/import", response_class=Response, responses={200: {"content": {NDJSON: {}}}})
async def import_files(
    files: Files,
    service: Service,
    person: Labeler,
    labels: Annotated[
        bool, Query(description="Learn the labels in the files; without it all samples are recognized.")
    ] = True,
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
        service.world, service.inputs, person.name, answered=service.metrics.answered, labels=labels
    )

    async def lines() -> AsyncIterator[bytes]:
        with folder:
            steps = _take_all(service, intake, kept)
            while await to_thread.run_sync(next, steps, None, limiter=service.inputs.turns) is not None:
                yield _line(intake.summary, finished=False)
            yield _line(intake.summary, finished=True)

    return StreamingResponse(lines(), media_type=NDJSON)


def _keep(files: list[UploadFile], folder: Path) -> list[tuple[str, Path | None]]:
    """Copy files to a folder, under names of our own; None for a file of a kind that cannot be read."""
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
    service: ServiceState, intake: Intake, kept: list[tuple[str, Path | None]]
) -> Iterator[IntakeSummary]:
    """Take in the files one after the other; one that cannot be used is noted by its name."""
    for name, path in kept:
        try:
            yield from _take(service, intake, name, path)
        except (DataError, Conflict, Refused, ImportError, UnicodeError) as error:
            intake.summary.total += 1
            intake.summary.refuse(name, error)
            yield intake.summary
    yield intake.finish()


def _take(service: ServiceState, intake: Intake, name: str, path: Path | None) -> Iterator[IntakeSummary]:
    if path is None:
        raise Refused(f"Files of this kind cannot be read. These can: {', '.join(ENDINGS)}.")
    data = open_upload(path, name, takes_items=service.world.model.extractor is not None)
    most = service.settings.max_import
    if len(data) > most:
        raise Refused(f"It holds {len(data):,} samples; {most:,} are the most in one file. Send it in parts.")
    yield from intake.take(data)


def _line(summary: IntakeSummary, *, finished: bool) -> bytes:
    record: dict[str, Any] = {"finished": finished, "done": summary.done, **asdict(summary)}
    record["refusals"] = [{"name": name, "reason": reason} for name, reason in summary.refusals]
    if not finished:
        del record["refusals"]
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"
