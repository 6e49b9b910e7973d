"""Try it: draw a letter, drop a picture, paste a text or numbers, and see what the model says and why."""

from __future__ import annotations

import io
from base64 import b64encode
from typing import Annotated

import numpy as np
from fastapi import APIRouter, File, Form, HTTPException, Request, UploadFile
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from openworld.data.letters import SIDE, Letters
from openworld.service.dependencies import ServiceState, get_state
from openworld.service.inputs import media_type
from openworld.service.pages.page import kind_of, page, person, render
from openworld.service.validation import Refused
from openworld.store.records import SampleContent

router = APIRouter()

_LETTER_FEATURES = 256
_SOURCE = "try it"
_SUGGESTED = 2000  # labels in the list of the page
Remember = Annotated[bool, Form()]
Label = Annotated[str, Form(max_length=200)]


@router.get("/try")
def try_it(request: Request) -> HTMLResponse:
    """Show what the model takes."""
    state = get_state(request)
    kind = kind_of(request)
    n_features = state.world.model.n_features
    return page(
        request,
        "try.html",
        kind=kind,
        n_features=n_features,
        letters=n_features == _LETTER_FEATURES and not kind,
        labels=[info.label for info in state.world.classes.all()][:_SUGGESTED],
    )


@router.post("/try/letter")
def letter(
    request: Request, pixels: Annotated[str, Form()], remember: Remember = False, label: Label = ""
) -> HTMLResponse:
    """Recognize a drawing of 28 x 28 pixels, 0 to 255 by commas, as the built-in letters are seen."""
    try:
        image = np.array(pixels.split(","), dtype=np.uint8).reshape(SIDE, SIDE)
    except (ValueError, OverflowError):
        raise Refused(f"A drawing is {SIDE} x {SIDE} numbers from 0 to 255.") from None
    if not image.any():
        raise Refused("The drawing is empty.")
    drawn = Letters(_centered(image)[np.newaxis], np.array([""]), np.array([""]))
    item = SampleContent("image", None, _SOURCE, _thumbnail(drawn.images[0]))
    return _answer(request, drawn.frequencies, item, remember, label)


@router.post("/try/picture")
async def picture(
    request: Request, file: Annotated[UploadFile, File()], remember: Remember = False, label: Label = ""
) -> HTMLResponse:
    """Recognize a picture."""
    features, items = await get_state(request).inputs.pictures_in_turn([(file.filename, file.file)])
    return await run_in_threadpool(_answer, request, features, items[0], remember, label)


@router.post("/try/text")
def text(
    request: Request, text: Annotated[str, Form()], remember: Remember = False, label: Label = ""
) -> HTMLResponse:
    """Recognize a text."""
    features, items = get_state(request).inputs.texts([text], _SOURCE)
    return _answer(request, features, items[0], remember, label)


@router.post("/try/vector")
def vector(
    request: Request, numbers: Annotated[str, Form()], remember: Remember = False, label: Label = ""
) -> HTMLResponse:
    """Recognize numbers, separated by commas or spaces."""
    try:
        values = [float(part) for part in numbers.strip("[] \n").replace(",", " ").split()]
    except ValueError as error:
        raise Refused(f"Give numbers, separated by commas or spaces: {error}.") from None
    return _answer(request, [values], SampleContent(source=_SOURCE), remember, label)


def _answer(
    request: Request, features: ArrayLike, item: SampleContent, remember: bool, label: str
) -> HTMLResponse:
    """Recognize a sample or, with a label, learn it: a person has corrected the answer."""
    state: ServiceState = get_state(request)
    me, picture = person(request), _data_url(item)
    if label:
        if not me.may("labeler"):
            raise HTTPException(403, f"{me.name} is a viewer and cannot teach the model.")
        outcome = state.world.labels.learn(features, [label], me.name, [item])
        return render("answer.html", item=item, picture=picture, learned=label, outcome=outcome)
    answers = state.world.recognize(features, [item], remember=remember and me.may("labeler"))
    state.metrics.answered(answers)
    (answer,) = answers.rows()
    return render(
        "answer.html",
        item=item,
        picture=picture,
        learned=None,
        answer=answer,
        known=not answer["unknown"],
        threshold=answers.judgement.threshold,
        version=answers.model_version,
        may_teach=me.may("labeler"),
    )


def _data_url(item: SampleContent) -> str | None:
    """Return the picture of a sample as an address: it is shown, and perhaps not stored."""
    data = item.preview or item.thumbnail
    return None if data is None else f"data:{media_type(data)};base64,{b64encode(data).decode()}"


def _centered(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Move ink to the middle of the columns, where the letters have it; the height matters and stays."""
    columns = np.flatnonzero(image.any(axis=0))
    return np.roll(image, (SIDE - 1 - columns[0] - columns[-1]) // 2, axis=1)


def _thumbnail(image: NDArray[np.uint8]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(255 - image).resize((112, 112), Image.Resampling.NEAREST).save(file, "PNG")
    return file.getvalue()
