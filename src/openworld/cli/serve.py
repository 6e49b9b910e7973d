"""`openworld serve`: recognize, collect the unknown, let people name it, learn it; over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from openworld.cli.database import DatabaseOption, plain_errors


def serve(
    model: Annotated[
        Path | None,
        typer.Argument(help="The model file a new database begins with; later it goes on with its own."),
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
        typer.Option(help="onnx:PATH or words:PATH, where the model's extractor is a file."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with settings; see the docs.")] = None,
    log_format: Annotated[str | None, typer.Option(help="json or console.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON.")] = False,
) -> None:
    """Serve a model that goes on learning: page, HTTP API and events at one address.

    First time: openworld serve animals.ow --database sqlite:///animals.db

    Later: openworld serve --database sqlite:///animals.db
    """
    from openworld.cli.console import need

    need("fastapi", "uvicorn", "sqlalchemy", "pydantic_settings", extra="service")
    from openworld.service.server import serve as run
    from openworld.service.settings import load_settings

    settings = load_settings(
        config,
        model=model,
        database=database,
        host=host,
        port=port,
        workers=workers,
        key=key,
        extractor=extractor,
        log_format=log_format,
    )
    with plain_errors():
        run(settings, lambda address: typer.echo(_ready(address, as_json=as_json)))


def _ready(address: str, *, as_json: bool) -> str:
    return json.dumps({"address": address}) if as_json else f"openworld is at {address} (Ctrl+C ends it)"
