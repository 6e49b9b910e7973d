"""Arguments and options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from openworld.data.columns import Columns
    from openworld.samples import Extraction

RECOGNIZER = "Recognizer"  # headings of the options in --help
TABLES = "Tables"
PICTURES_AND_TEXTS = "Pictures and texts"


class OnError(StrEnum):
    """What to do about a picture or text that cannot be read."""

    skip = "skip"
    stop = "stop"


class Missing(StrEnum):
    """What to do about a sample with a missing value."""

    error = "error"
    drop = "drop"
    mean = "mean"


ModelArgument = Annotated[Path, typer.Argument(help="The model file.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="sqlite:///FILE or postgresql://USER@HOST/NAME. Default: the variable OPENWORLD_DATABASE, or "
        "sqlite:///openworld.db.",
    ),
]
DaskOption = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS",
        help="Run on a Dask cluster: its address (tcp://...), or local for one process per core.",
    ),
]
UseLabelsOption = Annotated[
    bool,
    typer.Option(
        "--labels/--no-labels",
        help="Whether sub-folders or the label column give the class of a sample.",
    ),
]
ObjectiveOption = Annotated[
    str | None,
    typer.Option(
        "--objective",
        metavar="GOAL",
        help="Operating point of an openworld model: error (known and unknown samples count equally), f1, "
        "far=0.05 (accept at most 5 % of unknown samples) or recall=0.95 (accept 95 % of known samples).",
        rich_help_panel=RECOGNIZER,
    ),
]
ExtractorOption = Annotated[
    str | None,
    typer.Option(
        "--extractor",
        metavar="NAME",
        help="Feature extractor. Pictures: efficientnet-lite0, efficientnet-lite2, onnx:PATH, timm:NAME, "
        "words:PATH, pixels. Texts: minilm, wordllama, use-multilingual, ngrams, sentence-transformers:NAME. "
        "Default: the one the model was fitted with; for a new model, the first in each list.",
        rich_help_panel=PICTURES_AND_TEXTS,
    ),
]
OnErrorOption = Annotated[
    OnError,
    typer.Option(
        "--on-error",
        metavar="skip|stop",
        help="If a file cannot be read: skip it and list it at the end, or stop.",
        rich_help_panel=PICTURES_AND_TEXTS,
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        metavar="N",
        help="Number of threads that extract features. Default: one per core.",
        rich_help_panel=PICTURES_AND_TEXTS,
    ),
]
CacheOption = Annotated[
    bool,
    typer.Option(
        "--cache/--no-cache",
        help="Cache features on disk, so that each picture or text is processed only once.",
        rich_help_panel=PICTURES_AND_TEXTS,
    ),
]
LabelColumnOption = Annotated[
    str | None,
    typer.Option(
        "--label-column",
        metavar="COLUMN",
        help="Column with the labels, or array of an .npz file. Default: label (y in an .npz file).",
        rich_help_panel=TABLES,
    ),
]
FeatureColumnsOption = Annotated[
    str | None,
    typer.Option(
        "--feature-columns",
        metavar="A,B,...",
        help="Numeric columns to learn from. Default: all except label, id and group columns.",
        rich_help_panel=TABLES,
    ),
]
TextColumnOption = Annotated[
    str | None,
    typer.Option(
        "--text-column",
        metavar="COLUMN",
        help="Column with the texts. Default: text or sentence.",
        rich_help_panel=TABLES,
    ),
]
IdColumnOption = Annotated[
    str | None,
    typer.Option(
        "--id-column",
        metavar="COLUMN",
        help="Column that identifies the samples. It is not learned from.",
        rich_help_panel=TABLES,
    ),
]
GroupColumnOption = Annotated[
    str | None,
    typer.Option(
        "--group-column",
        metavar="COLUMN",
        help="Column with the same value in near copies: a burst, the frames of a video, augmented copies. "
        "In a folder of pictures, folder: each sub-folder of a class is a group.",
        rich_help_panel=TABLES,
    ),
]
FindCopiesOption = Annotated[
    bool,
    typer.Option(
        "--find-copies/--no-find-copies",
        help="Whether a group of near copies in a class, such as a burst, counts as one picture, where there "
        "are many. --group-column names the groups instead.",
        rich_help_panel=PICTURES_AND_TEXTS,
    ),
]
MissingOption = Annotated[
    Missing,
    typer.Option(
        "--missing",
        metavar="error|drop|mean",
        help="If a value is missing: stop (error), skip the sample (drop), or use the column's mean (mean).",
        rich_help_panel=TABLES,
    ),
]


def as_columns(
    label: str | None,
    features: str | None,
    text: str | None,
    id: str | None,
    missing: Missing,
    group: str | None = None,
) -> Columns:
    """Return the options for the columns of a table as one object."""
    from openworld.data.columns import Columns

    names = None if features is None else tuple(name.strip() for name in features.split(","))
    return Columns(label, names, text, id, group, missing.value)


def as_extraction(extractor: str | None, on_error: OnError, workers: int | None, cache: bool) -> Extraction:
    """Return the options for features of pictures and texts as one object."""
    from openworld.samples import Extraction

    return Extraction(extractor, on_error.value, workers, cache)
