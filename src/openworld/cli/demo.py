"""`openworld demo`: the living system on the built-in letters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def demo(
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Folder for the database, or for the files that are written.",
        ),
    ] = Path("demo"),
    in_terminal: Annotated[
        bool,
        typer.Option(
            "--in-terminal",
            help="Run the whole loop in the terminal, without a service, and write model, table and figure.",
        ),
    ] = False,
    port: Annotated[int, typer.Option(help="Port of the page; 0 for a free one.")] = 8000,
    seed: Annotated[int, typer.Option(help="Random seed that chooses which letters are known.")] = 1,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the address, or the accuracies, as JSON.")
    ] = False,
) -> None:
    """Try the service on built-in letters: 30 are known, the others stream in as unknown.

    Open the page, name the unknown letters, and see that they are recognized from then on. The next
    `openworld demo` continues with what you named.

    Without a page, with the true names instead of a person: openworld demo --in-terminal
    """
    from openworld.cli.console import messages, need
    from openworld.cli.demo_story import draw_letters, tell_in_terminal

    output.mkdir(parents=True, exist_ok=True)
    if in_terminal:
        tell_in_terminal(output, seed, as_json=as_json)
        return
    need("fastapi", "uvicorn", "sqlalchemy", "pydantic_settings", extra="service")
    from openworld.cli.database import plain_errors
    from openworld.cli.demo_feed import LetterFeed, starting_model
    from openworld.service.server import serve
    from openworld.service.settings import load_settings

    database = output.resolve() / "letters.db"
    letters = draw_letters()
    model = None
    if not database.exists():
        messages.print("Learning the first letters ...")
        model = starting_model(letters, seed)
    settings = load_settings(
        database=f"sqlite:///{database}", port=port, log_level="warning", log_format="console"
    )

    def say(address: str) -> None:
        if as_json:
            typer.echo(json.dumps({"address": address}))
            return
        typer.echo(
            f"\nOpen {address} in a browser. Ctrl+C ends it.\n"
            "  1. Open a cluster: letters that the model does not know.\n"
            "  2. Type its name (a, B, alpha, ...) and press Enter.\n"
            "  3. Letters go on coming: what you named is recognized from now on."
        )

    with plain_errors():
        serve(settings, say, model, alongside=LetterFeed(letters, seed).into)
