"""`openworld demo`: the service on built-in letters, or the same loop in the terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def demo(
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the database or the model."),
    ] = Path("demo"),
    in_terminal: Annotated[
        bool,
        typer.Option("--in-terminal", help="Run the loop on digits in the terminal, without the page."),
    ] = False,
    port: Annotated[int, typer.Option(help="Port of the page; 0 for a free one.")] = 8000,
    seed: Annotated[int, typer.Option(help="Random seed that chooses which classes are known.")] = 1,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the address, or the accuracies, as JSON.")
    ] = False,
) -> None:
    """Try openworld on built-in data: letters on a page, or digits in the terminal.

    Name the unknown letters on the page, and they are recognized from then on. The next run continues.

    Without the extra "service" there is no page, and the demo runs in the terminal.

    Example: openworld demo --in-terminal
    """
    from openworld.cli.console import messages, missing, plain_errors

    output.mkdir(parents=True, exist_ok=True)
    if not in_terminal and missing("fastapi", "uvicorn", "sqlalchemy", "pydantic_settings", "matplotlib"):
        hint = 'The page needs more packages: pip install "openworld[service]". Running in the terminal.\n'
        messages.print(hint, markup=False, soft_wrap=True)
        in_terminal = True
    if in_terminal:
        from openworld.cli.demo_story import tell_in_terminal

        tell_in_terminal(output, seed, as_json=as_json)
        return
    from openworld.cli.demo_feed import LetterFeed, draw_letters, starting_model
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
            f"\nOpen {address} in a browser. Ctrl+C stops it.\n"
            "  1. Open a cluster of letters that the model does not know.\n"
            "  2. Type its name (a, B, alpha, ...) and press Enter.\n"
            "  3. More letters keep arriving. Those you have named are now recognized."
        )

    with plain_errors():
        serve(settings, say, model, alongside=LetterFeed(letters, seed).into)
