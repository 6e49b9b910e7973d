"""`openworld import`: samples into a database, with or without labels."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from openworld.cli.options import DatabaseOption, GroupColumnOption, JsonOption, UseLabelsOption


def import_samples(
    data: Annotated[
        str,
        typer.Argument(
            help="A folder of pictures (sub-folders give their classes) or a .zip of it; texts (.csv, .txt, "
            ".jsonl, .parquet); Label Studio tasks (.json); or vectors (.npz, .csv)."
        ),
    ],
    database: DatabaseOption = None,
    labels: UseLabelsOption = True,
    group_column: GroupColumnOption = None,
    extractor: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Feature extractor of a new database. Default: efficientnet-lite0 for pictures, minilm "
            "for texts.",
        ),
    ] = None,
    who: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the person or program in the history.")
    ] = "import",
    as_json: JsonOption = False,
) -> None:
    """Import samples into a database: labeled samples are learned, unknown ones are put in the pool.

    Example: openworld import photos/ --database sqlite:///animals.db

    A new database starts with nothing known. It takes the model of the first openworld serve MODEL, unless
    labels were learned before.

    While a server uses an SQLite database, send it the files over HTTP instead: POST /v1/import.
    """
    from openworld.cli.console import need, plain_errors
    from openworld.cli.intake import first_model, in_any_order, open_samples, say, take

    need("fastapi", "sqlalchemy", "pydantic_settings", extra="service")
    from openworld.data.sources import Source
    from openworld.service.app import open_world
    from openworld.service.inputs import Inputs
    from openworld.service.intake import Intake
    from openworld.service.settings import load_settings

    samples = open_samples(data, group_column)
    settings = load_settings(database=database, extractor=extractor)
    if isinstance(samples, Source):
        samples = in_any_order(samples)
    with plain_errors(), _http_instead(), open_world(settings, first_model(samples, settings)) as world:
        intake = Intake(world, Inputs(world, settings), who, labels=labels)
        summary = take(intake, samples, "Importing")
    if as_json:
        typer.echo(json.dumps({"done": summary.done, **dataclasses.asdict(summary)}))
    else:
        say(summary)


@contextmanager
def _http_instead() -> Iterator[None]:
    """Say how to import while a server uses the database."""
    from openworld.store import StorageError

    try:
        yield
    except StorageError as error:
        if "in use by another" not in str(error):
            raise
        raise StorageError(f"{error} If that is a server, send it the files: POST /v1/import.") from error
