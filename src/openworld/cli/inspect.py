"""`openworld inspect`: what a model file holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def inspect(
    model: Annotated[Path, typer.Argument(help="The model file.")],
    classes: Annotated[bool, typer.Option("--classes", help="List every class with its samples.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Show what a model knows: recognizer, classes, metric, tau and how sure tau is.

    Example: openworld inspect animals.ow --classes
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from openworld import load
    from openworld.model_file import read_description

    recognizer = load(model)
    description = read_description(model)
    counts = {label: recognizer.statistics_.count(label) for label in recognizer.classes_.tolist()}
    calibration = description.get("calibration")
    facts = {
        "recognizer": description["recognizer"],
        "written by openworld": description["openworld_version"],
        "classes": len(counts),
        "samples": sum(counts.values()),
        "features": recognizer.n_features_in_,
        "metric": description["metric"]["type"],
        "dimensions": int(recognizer.metric_.W_.shape[1]),
        "unknown is called": recognizer.unknown_label_,
        "tau": description.get("tau"),
        "tau of each fold": calibration and calibration["fold_taus"],
        "file bytes": model.stat().st_size,
    }
    if as_json:
        per_class = [{"label": label, "samples": count} for label, count in counts.items()]
        typer.echo(json.dumps({**facts, "per_class": per_class} if classes else facts, ensure_ascii=False))
        return
    table = Table(show_header=False)
    for name, value in facts.items():
        if value is not None:
            shown = ", ".join(f"{tau:.4g}" for tau in value) if isinstance(value, list) else _shown(value)
            table.add_row(name, escape(shown))
    Console().print(table)
    if classes:
        listing = Table("class", "samples")
        for label, count in counts.items():
            listing.add_row(escape(str(label)), _shown(count))
        Console().print(listing)


def _shown(value: object) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else str(value)
