"""Options that several commands share: how data are read and become features."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from openworld.data.columns import Columns
    from openworld.samples import Extraction


class OnError(StrEnum):
    """What to do about a picture or text that cannot be read."""

    skip = "skip"
    stop = "stop"


class Missing(StrEnum):
    """What to do about a sample with a missing value."""

    error = "error"
    drop = "drop"
    mean = "mean"


ExtractorOption = Annotated[
    str | None,
    typer.Option(
        "--extractor",
        help="Feature extractor. Pictures: efficientnet-lite0, efficientnet-lite2, onnx:PATH, timm:NAME, "
        "words:PATH, pixels. Text: minilm, wordllama, use-multilingual, ngrams, sentence-transformers:NAME. "
        "Default: the model's own, or the first of its kind.",
        show_default=False,
    ),
]
OnErrorOption = Annotated[
    OnError,
    typer.Option("--on-error", help="A picture that cannot be read: leave it out and say so, or stop there."),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers", min=1, help="Threads that extract; left out: one per core.", show_default=False
    ),
]
CacheOption = Annotated[
    bool,
    typer.Option("--cache/--no-cache", help="Keep features on disk, so that no picture is extracted twice."),
]
LabelColumnOption = Annotated[
    str | None,
    typer.Option(
        "--label-column",
        help="The column (or array of an .npz file) with the labels; by default label (y).",
        show_default=False,
    ),
]
FeatureColumnsOption = Annotated[
    str | None,
    typer.Option(
        "--feature-columns",
        help="The columns of numbers to use, with commas between them; by default all but label and ids. "
        "A model takes those it was fitted to, by name.",
        show_default=False,
    ),
]
TextColumnOption = Annotated[
    str | None,
    typer.Option(
        "--text-column",
        help="The column with the texts; by default text or sentence.",
        show_default=False,
    ),
]
IdColumnOption = Annotated[
    str | None,
    typer.Option("--id-column", help="A column that names the samples; nothing is learned from it."),
]
MissingOption = Annotated[
    Missing,
    typer.Option(
        "--missing",
        help="A missing value: stop there (error), leave the sample out (drop), or take the column's mean.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]
ObjectiveOption = Annotated[
    str | None,
    typer.Option(
        "--objective",
        help="For openworld, what the threshold is to reach: error (known and unknown weigh alike), f1, "
        "far=0.05 (at most 5 % of the unknown accepted) or recall=0.95 (95 % of the known accepted).",
    ),
]
DaskOption = Annotated[
    str | None,
    typer.Option(
        "--dask",
        help="Work on a Dask cluster: its address (tcp://...), or local for a process per core here.",
        show_default=False,
    ),
]


def as_columns(
    label: str | None, features: str | None, text: str | None, id: str | None, missing: Missing
) -> Columns:
    """Return what the user said about the columns of a table."""
    from openworld.data.columns import Columns

    names = None if features is None else tuple(name.strip() for name in features.split(","))
    return Columns(label, names, text, id, missing.value)


def as_extraction(extractor: str | None, on_error: OnError, workers: int | None, cache: bool) -> Extraction:
    """Return what the user said about features of pictures and texts."""
    from openworld.samples import Extraction

    return Extraction(extractor, on_error.value, workers, cache)
