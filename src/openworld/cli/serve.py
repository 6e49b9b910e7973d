"""`openworld serve`: recognize, collect the unknown, let people name it, learn it; over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from openworld.cli.options import DatabaseOption, UseLabelsOption

SourceArgument = Annotated[
    str | None,
    typer.Argument(
        help="What a new database starts with: a model file; or samples (a folder of pictures, a .zip of it, "
        "a text file or a table). Labeled samples are learned first, the others are put in the unknown pool."
    ),
]
HostOption = Annotated[str | None, typer.Option(help="Address to listen on. Default: 127.0.0.1.")]
PortOption = Annotated[int | None, typer.Option(help="Port. Default: 8000; 0 for a free one.")]
WorkersOption = Annotated[
    int | None, typer.Option(metavar="N", help="Number of processes. More than one needs PostgreSQL.")
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        metavar="SECRET",
        help="An admin key, at least 16 characters. Other users of this machine can see it in the process "
        "list: prefer the variable OPENWORLD_KEY, or `openworld key create`.",
    ),
]
ExtractorOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Start a new database without a model, for pictures (efficientnet-lite0, ...) or texts (minilm, "
        "...). If the model's extractor is a file, say where it is: onnx:PATH or words:PATH.",
    ),
]
FeaturesOption = Annotated[
    int | None,
    typer.Option(metavar="N", help="Start a new database without a model, for vectors of N numbers."),
]
ObjectiveOption = Annotated[
    str | None,
    typer.Option(
        metavar="GOAL", help="Operating point of a new database: error, f1, far=0.05 or recall=0.95."
    ),
]
ConfigOption = Annotated[Path | None, typer.Option(metavar="FILE", help="TOML file with settings.")]
LogFormatOption = Annotated[str | None, typer.Option(metavar="json|console", help="Format of the log.")]


def serve(
    source: SourceArgument = None,
    database: DatabaseOption = None,
    host: HostOption = None,
    port: PortOption = None,
    workers: WorkersOption = None,
    key: KeyOption = None,
    extractor: ExtractorOption = None,
    features: FeaturesOption = None,
    labels: UseLabelsOption = True,
    objective: ObjectiveOption = None,
    config: ConfigOption = None,
    log_format: LogFormatOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON.")] = False,
) -> None:
    """Start the service: an HTTP API, and a page where people name what is unknown.

    With a model: openworld serve animals.ow --database sqlite:///animals.db

    With unlabeled pictures: openworld serve photos/

    With nothing yet: openworld serve --extractor efficientnet-lite0

    With the database of an earlier start: openworld serve --database sqlite:///animals.db
    """
    from openworld.cli.console import need, plain_errors

    need("fastapi", "uvicorn", "sqlalchemy", "pydantic_settings", extra="service")
    from contextlib import nullcontext

    from openworld.cli.intake import DataFeed, first_model, open_samples
    from openworld.service.server import serve as run
    from openworld.service.settings import load_settings

    is_model = source is not None and _is_model(source)
    settings = load_settings(
        config,
        model=source if is_model else None,
        database=database,
        host=host,
        port=port,
        workers=workers,
        key=key,
        extractor=extractor,
        features=features,
        objective=objective,
        log_format=log_format,
    )
    data = None if source is None or is_model else open_samples(source)
    if data is not None and settings.workers > 1:
        raise ValueError(
            f"Several workers cannot read data at the start. Run openworld import {source} first."
        )
    with plain_errors():
        run(
            settings,
            lambda address: typer.echo(_ready(address, as_json=as_json)),
            None if data is None else first_model(data, settings),
            nullcontext if data is None else DataFeed(data, labels=labels).into,
        )


def _is_model(source: str) -> bool:
    """Return whether a file is a model, by its extension or by its content."""
    from openworld.model_file import ModelFileError, read_description

    if source.endswith(".ow"):
        return True
    try:
        return bool(read_description(source))
    except (ModelFileError, FileNotFoundError):
        return False


def _ready(address: str, *, as_json: bool) -> str:
    return json.dumps({"address": address}) if as_json else f"openworld is at {address} (Ctrl+C stops it)"
