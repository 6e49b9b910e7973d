"""Data: samples in, and what was learned out."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from openworld.features.extractor import Kind
from openworld.service.pages.page import page, world_of
from openworld.service.state import get_state
from openworld.service.validation import Conflict

router = APIRouter()

EXPORTS = (
    (
        "/v1/export/labeled?format=csv",
        "Table (.csv)",
        "Labels with texts or numbers, one sample on each line.",
    ),
    ("/v1/export/labeled?format=parquet", "Table (.parquet)", "The same with pictures and features."),
    (
        "/v1/export/labeled?format=zip",
        "Folders (.zip)",
        "One folder for each class, as openworld fit reads it.",
    ),
    ("/v1/export/labeled?format=label-studio", "Label Studio (.json)", "Tasks with their choices."),
    ("/v1/export/labeled?format=npz", "Arrays (.npz)", "Features X and labels y for numpy."),
    ("/v1/export/model", "Model (.ow)", "For openworld recognize and openworld serve."),
    ("/v1/export/log", "Event log (.ndjson)", "Who did what, and when."),
)


@router.get("/data")
def data(request: Request) -> HTMLResponse:
    """Show what can be imported and exported."""
    return page(
        request,
        "data.html",
        kind=kind_of(request),
        n_features=world_of(request).model.n_features,
        exports=EXPORTS,
    )


def kind_of(request: Request) -> Kind | None:
    """Return what the model takes: pictures, texts, or None for vectors; also if it cannot be extracted."""
    try:
        return get_state(request).inputs.kind
    except Conflict:  # the extractor is not installed
        return None
