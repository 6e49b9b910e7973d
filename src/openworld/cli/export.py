"""`openworld export`: write the contents of a database to files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from openworld.cli.options import DatabaseOption, JsonOption

_FORMS = (
    "model (.ow), labeled samples (.csv, .parquet, .zip or a folder with one sub-folder per class, .json "
    "for Label Studio, .npz, .ndjson) or the event log (.ndjson)"
)


def export(
    what: Annotated[str, typer.Argument(help="model, labeled or log.")],
    output: Annotated[
        Path,
        typer.Argument(
            help="The file to write. model: .ow; log: .ndjson; labeled: .csv, .parquet, .zip or a folder "
            "(one sub-folder per class), .json (Label Studio), .npz or .ndjson."
        ),
    ],
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the model, the labeled samples or the event log of a database to a file.

    The model: openworld export model animals.ow --database sqlite:///animals.db

    A folder that openworld fit reads: openworld export labeled photos/ --database sqlite:///animals.db
    """
    from openworld.cli.console import need, plain_errors, print_summary
    from openworld.cli.pipeline import require_folder

    need("sqlalchemy", "pydantic_settings", extra="service")
    from openworld.service.export import FORMS, write_file
    from openworld.service.settings import load_settings
    from openworld.service.world import World
    from openworld.store.storage import DamagedError

    if (what, output.suffix) not in FORMS:
        raise ValueError(f"Cannot export {what} to {output.name}. You can export: {_FORMS}.")
    require_folder(output)
    url = load_settings(database=database).database
    with plain_errors():
        try:
            with World.open(url, alone=False) as world:
                write_file(world, what, output)
        except DamagedError as error:
            _export_readable(url, what, output, error)
    summary = {"what": what, "file": str(output), "bytes": _size(output)}
    print_summary(summary, f"Wrote {output}.", as_json=as_json)


def _export_readable(url: str, what: str, output: Path, error: Exception) -> None:
    """Write the readable part of a damaged database, with a message."""
    from sqlalchemy import make_url

    from openworld.cli.console import messages
    from openworld.service.export import export_readable

    n = export_readable(Path(make_url(url).database or ""), what, output)
    if not n:
        raise ValueError(f"The {what} cannot be read: restore a backup. {error}") from error
    found = "the newest model" if what == "model" else f"{n} {'events' if what == 'log' else 'samples'}"
    messages.print(f"The database is damaged. Exported what could be read: {found}.", style="yellow")


def _size(output: Path) -> int:
    files = output.rglob("*") if output.is_dir() else [output]
    return sum(file.stat().st_size for file in files if file.is_file())
