"""`openworld learn`: teach a model more samples or new classes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def learn(
    model: Annotated[Path, typer.Argument(help="The model file.")],
    data: Annotated[Path, typer.Argument(help="Labelled samples, of known or new classes.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write here instead of over the model file.")
    ] = None,
    label_column: Annotated[str | None, typer.Option(help="The array or column with the labels.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Add labelled samples to a model; the classes it knows already stay as they are.

    Example: openworld learn animals.ow okapi.csv
    """
    from openworld import load, save
    from openworld.cli.console import messages, plural, read_labelled

    recognizer = load(model)
    X, y = read_labelled(data, label_column)
    before = len(recognizer.classes_)
    recognizer.partial_fit(X, y)
    target = output or model
    save(recognizer, target)
    known = len(recognizer.classes_)
    if as_json:
        summary = {
            "model": str(target), "samples": len(X), "classes": known, "new_classes": known - before
        }  # fmt: skip
        typer.echo(json.dumps(summary))
        return
    new = plural(known - before, "new class", "new classes")
    messages.print(
        f"Learnt {plural(len(X), 'sample')}, {new}; "
        f"{plural(known, 'class', 'classes')} known now. Wrote {target}."
    )
