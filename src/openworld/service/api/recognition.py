"""Recognizing and learning: vectors and texts as JSON, pictures as files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, File, Form, HTTPException, Query, UploadFile
from fastapi.concurrency import run_in_threadpool
from numpy.typing import NDArray

from openworld.service.api.errors import errors
from openworld.service.api.idempotency import Idempotent
from openworld.service.auth.authorization import Labeller, Person, Viewer
from openworld.service.batcher import Reply
from openworld.service.results import Item, Outcome, Refused
from openworld.service.schemas import LearnBody, RecognizeBody, Recognized
from openworld.service.state import Service, State

router = APIRouter(prefix="/v1", tags=["recognize and learn"], responses=errors(401, 403, 413, 422, 429))

Files = Annotated[list[UploadFile], File(description="Pictures: JPEG, PNG, WebP, ...")]


@router.post("/recognize", response_model=Recognized, responses=errors(409))
async def recognize(body: RecognizeBody, service: Service, person: Viewer, request: Idempotent) -> Any:
    """Name each sample or answer unknown; unknown ones go to the pool."""
    check_may_remember(person, body.remember)
    if body.texts is not None:
        check_batch(len(body.texts), service.settings.max_batch)
        X, items = await run_in_threadpool(service.inputs.texts, body.texts, body.source)
    else:
        vectors = body.vectors or []
        X, items = as_array(vectors, service), [Item(source=body.source)] * len(vectors)
    return await request.reply(person, partial(recognized, service, X, items, body.remember, body.nearest))


@router.post("/recognize/images", response_model=Recognized, responses=errors(409))
async def recognize_images(
    files: Files,
    service: Service,
    person: Viewer,
    request: Idempotent,
    remember: Annotated[bool, Query(description="Put the unknown into the pool.")] = True,
    nearest: Annotated[int, Query(ge=0, le=50)] = 5,
) -> Any:
    """Recognize pictures, with a model that was fitted on pictures."""
    check_may_remember(person, remember)
    X, items = await _pictures(files, service)
    return await request.reply(person, partial(recognized, service, X, items, remember, nearest))


@router.post("/learn", responses=errors(409))
def learn(body: LearnBody, service: Service, person: Labeller, request: Idempotent) -> Outcome:
    """Learn labelled samples, of known and of new classes."""
    if body.texts is not None:
        check_batch(len(body.texts), service.settings.max_batch)
        X, items = service.inputs.texts(body.texts, body.source)
    else:
        vectors = body.vectors or []
        X, items = as_array(vectors, service), [Item(source=body.source)] * len(vectors)
    return request.append(person, lambda: service.world.labels.learn(X, body.labels, person.name, items))


@router.post("/learn/images", responses=errors(409))
async def learn_images(
    files: Files,
    labels: Annotated[list[str], Form(description="One for each picture, or one for all.")],
    service: Service,
    person: Labeller,
    request: Idempotent,
) -> Outcome:
    """Learn labelled pictures, with a model that was fitted on pictures."""
    X, items = await _pictures(files, service)
    names = labels * len(files) if len(labels) == 1 else labels
    return await run_in_threadpool(
        request.append, person, lambda: service.world.labels.learn(X, names, person.name, items)
    )


async def _pictures(files: list[UploadFile], service: State) -> tuple[Any, list[Item]]:
    check_batch(len(files), service.settings.max_images)
    read = [(_file_name(file.filename), await file.read()) for file in files]
    return await run_in_threadpool(service.inputs.pictures, read)


def _file_name(name: str | None) -> str | None:
    """Return what is printable of a file's name: it is shown, and never used as a path."""
    return "".join(letter for letter in name or "" if letter.isprintable())[:200] or None


def as_array(vectors: list[list[float]], service: State) -> NDArray[np.float32]:
    """Return vectors of a request as an array, or say what is wrong with them."""
    check_batch(len(vectors), service.settings.max_batch)
    wanted = service.batcher.n_features
    for i, vector in enumerate(vectors):
        if len(vector) != wanted:
            raise Refused(f"The model takes samples of {wanted} numbers; vector {i} has {len(vector)}.")
    with np.errstate(over="ignore"):  # what does not fit becomes infinite, which is refused
        return np.array(vectors, dtype=np.float32).reshape(len(vectors), wanted)


def check_batch(n: int, most: int) -> None:
    """Refuse too many samples at once."""
    if n > most:
        raise HTTPException(413, f"{n:,} samples in a request; {most:,} are the most.")


def check_may_remember(person: Person, remember: bool) -> None:
    """Refuse to store what a viewer sends: they only look."""
    if remember and not person.may("labeller"):
        raise HTTPException(403, f"{person.name} is a viewer: ask with remember=false.")


async def recognized(
    service: State, X: NDArray[Any], items: Sequence[Item] | None, remember: bool, nearest: int
) -> dict[str, Any]:
    """Recognize samples and return what is answered about them."""
    reply = await service.batcher.recognize(X, items, remember=remember)
    return {
        "model_version": reply.model_version,
        "threshold": reply.threshold,
        "answers": cut(reply, nearest),
    }


def cut(reply: Reply, nearest: int) -> list[dict[str, Any]]:
    """Return the rows of a reply with so many nearest classes."""
    if not reply.rows or nearest >= len(reply.rows[0]["nearest"]):
        return reply.rows
    return [{**row, "nearest": row["nearest"][:nearest]} for row in reply.rows]
