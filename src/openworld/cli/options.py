"""Options that several commands share: how pictures and texts become features."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class OnError(StrEnum):
    """What to do about a picture or text that cannot be read."""

    skip = "skip"
    stop = "stop"


ExtractorOption = Annotated[
    str | None,
    typer.Option(
        "--extractor",
        help="Feature extractor. Pictures: efficientnet-lite0, efficientnet-lite2, onnx:PATH, timm:NAME, "
        "words:PATH, pixels. Text: minilm, wordllama, ngrams, sentence-transformers:NAME. Default: the "
        "model's own, or the first of its kind.",
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
    typer.Option("--label-column", help="The array or column with the labels.", show_default=False),
]
DaskOption = Annotated[
    str | None,
    typer.Option(
        "--dask",
        help="Work on a Dask cluster: its address (tcp://...), or local for a process per core here.",
        show_default=False,
    ),
]
