"""The command line: its commands, and how errors are shown."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any

import typer

from openworld._version import __version__
from openworld.cli.card import card
from openworld.cli.compare import compare
from openworld.cli.demo import demo
from openworld.cli.evaluate import evaluate
from openworld.cli.export import export
from openworld.cli.extract import extract
from openworld.cli.fit import fit
from openworld.cli.import_ import import_samples
from openworld.cli.inspect import inspect
from openworld.cli.key import app as key
from openworld.cli.learn import learn
from openworld.cli.recognize import recognize
from openworld.cli.serve import serve

app = typer.Typer(
    name="openworld",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Recognition in an open world: name what is known, answer unknown to the rest, and learn new "
    "classes at any time.",
    epilog="Start with: openworld demo",
)
for panel, commands in {
    "Models": (fit, recognize, learn, inspect, card, extract),
    "Service": (demo, serve, import_samples, export),
    "Experiments": (evaluate, compare),
}.items():
    for command in commands:
        name = "import" if command is import_samples else None
        app.command(name, rich_help_panel=panel)(command)
app.add_typer(key, name="key", rich_help_panel="Service")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"openworld {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Show a warning as one line, without the place in the source that Python names."""
    typer.secho(f"Warning: {message}", fg="yellow", err=True)


def main() -> None:
    """Run the command line; an error that a user can fix is one line, with exit code 1."""
    # The commands match the columns of a table by name themselves, and pass plain arrays on.
    warnings.simplefilter("once", UserWarning)
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    warnings.showwarning = _show_warning
    try:
        app()
    except (OSError, ValueError, TypeError, KeyError, ImportError) as error:
        # KeyError shows its text in quotes; the text itself is what we want.
        text = error.args[0] if isinstance(error, KeyError) and error.args else error
        typer.secho(f"Error: {text}", fg="red", err=True)
        sys.exit(1)
