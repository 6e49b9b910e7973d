"""`openworld import`: samples into a database, with or without labels."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer

from openworld.cli.database import DatabaseOption, plain_errors
from openworld.cli.options import JsonOption


def import_samples(
    data: Annotated[
        str,
        typer.Argument(
            help="A folder of pictures, with one sub-folder per class where they have labels, or a .zip of "
            "it; texts (.csv, .txt, .jsonl, .parquet); tasks of Label Studio (.json); vectors (.npz, .csv)."
        ),
    ],
    database: DatabaseOption = None,
    labels: Annotated[
        bool,
        typer.Option(
            "--labels/--no-labels", help="Whether sub-folders, or a column label, name the class of a sample."
        ),
    ] = True,
    extractor: Annotated[
        str | None,
        typer.Option(
            help="Of a new database: what makes features of pictures or texts; one is chosen by default.",
            show_default=False,
        ),
    ] = None,
    who: Annotated[str, typer.Option(help="The name in the history.")] = "import",
    as_json: JsonOption = False,
) -> None:
    """Take samples into a database: labeled ones are learned, the unknown ones wait to be named.

    openworld import photos/ --database sqlite:///animals.db

    No server may run on an SQLite database meanwhile; send it the files over HTTP: POST /v1/import.
    """
    from openworld.cli.console import need
    from openworld.cli.intake import first_model, in_any_order, open_samples, say, take

    need("fastapi", "sqlalchemy", "pydantic_settings", extra="service")
    from openworld.data.sources import Source
    from openworld.service.app import open_world
    from openworld.service.inputs import Inputs
    from openworld.service.intake import Intake
    from openworld.service.settings import load_settings

    samples, settings = open_samples(data), load_settings(database=database, extractor=extractor)
    if isinstance(samples, Source):
        samples = in_any_order(samples)
    with plain_errors(), open_world(settings, first_model(samples, settings)) as world:
        intake = Intake(world, Inputs(world, settings), who, labels=labels)
        summary = take(intake, samples, "Importing")
    if as_json:
        typer.echo(json.dumps({"done": summary.done, **dataclasses.asdict(summary)}))
    else:
        say(summary)
