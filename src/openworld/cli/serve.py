"""`openworld serve`: recognize, collect the unknown, let people name it, learn it; over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from openworld.cli.database import DatabaseOption, plain_errors


def serve(
    source: Annotated[
        str | None,
        typer.Argument(
            help="What a new database begins with: a model file; or a folder of pictures, a .zip of it, a "
            "text file, a table. Labeled samples are learned first, the others wait to be named.",
            show_default=False,
        ),
    ] = None,
    database: DatabaseOption = None,
    host: Annotated[
        str | None, typer.Option(help="The address to listen on; 127.0.0.1 by default.", show_default=False)
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="The port; 8000 by default, 0 for a free one.", show_default=False)
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes; more than one needs PostgreSQL.", show_default=False)
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            help="A secret of 16 characters or more that admits as admin. Others can see it in the list of "
            "processes: better set OPENWORLD_KEY, or make keys with `openworld key create`.",
            show_default=False,
        ),
    ] = None,
    extractor: Annotated[
        str | None,
        typer.Option(
            help="Start a new database without a model, for pictures (efficientnet-lite0, ...) or texts "
            "(minilm, wordllama, ...); or onnx:PATH or words:PATH, where the model's extractor is a file.",
            show_default=False,
        ),
    ] = None,
    features: Annotated[
        int | None,
        typer.Option(
            help="Start a new database without a model, for vectors of so many numbers.", show_default=False
        ),
    ] = None,
    labels: Annotated[
        bool,
        typer.Option(
            "--labels/--no-labels", help="Whether sub-folders, or a column label, name the class of a sample."
        ),
    ] = True,
    objective: Annotated[
        str | None,
        typer.Option(
            help="The operating point a new database begins with: error, f1, far=0.05 or recall=0.95.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with settings; see the docs.")] = None,
    log_format: Annotated[str | None, typer.Option(help="json or console.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON.")] = False,
) -> None:
    """Serve a model that goes on learning: page, HTTP API and events at one address.

    With a model: openworld serve animals.ow --database sqlite:///animals.db

    From nothing: openworld serve --extractor efficientnet-lite0, or with pictures: openworld serve photos/

    Later: openworld serve --database sqlite:///animals.db
    """
    from openworld.cli.console import need

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
        raise ValueError(f"Several workers serve a database, not data: first openworld import {source}.")
    with plain_errors():
        run(
            settings,
            lambda address: typer.echo(_ready(address, as_json=as_json)),
            None if data is None else first_model(data, settings),
            nullcontext if data is None else DataFeed(data, labels=labels).into,
        )


def _is_model(source: str) -> bool:
    """Tell whether a file is a model: by its ending, or by its content."""
    from openworld.model_file import ModelFileError, read_description

    if source.endswith(".ow"):
        return True
    try:
        return bool(read_description(source))
    except (ModelFileError, FileNotFoundError):
        return False


def _ready(address: str, *, as_json: bool) -> str:
    return json.dumps({"address": address}) if as_json else f"openworld is at {address} (Ctrl+C ends it)"
