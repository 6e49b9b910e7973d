"""`openworld export`: take out of a database what was learned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from openworld.cli.database import DatabaseOption, plain_errors
from openworld.cli.options import JsonOption

_FORMS = "model (.ow), labelled samples (.npz or .ndjson) or the event log (.ndjson)"


def export(
    what: Annotated[str, typer.Argument(help="model, labelled or log.")],
    output: Annotated[Path, typer.Argument(help="The file to write: .ow, .npz or .ndjson.")],
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the model, the labelled samples or the log of a database to a file.

    openworld export model animals.ow --database sqlite:///animals.db
    """
    from openworld.cli.console import messages, need
    from openworld.cli.loading import require_folder

    need("sqlalchemy", "pydantic_settings", extra="service")
    from openworld.service.api.exports import FORMS, write
    from openworld.service.settings import load_settings
    from openworld.service.world import World

    if (what, output.suffix) not in FORMS:
        raise ValueError(f"What can be exported: {_FORMS}; got {what} to {output.name}.")
    require_folder(output)
    with plain_errors(), World.open(load_settings(database=database).database, alone=False) as world:
        write(world, what, output)
    if as_json:
        typer.echo(json.dumps({"what": what, "file": str(output), "bytes": output.stat().st_size}))
    else:
        messages.print(f"Wrote {output}.")
