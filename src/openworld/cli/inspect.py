"""`openworld inspect`: show the content of a model file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from openworld.cli.options import ModelArgument


def inspect(
    model: ModelArgument,
    classes: Annotated[
        bool, typer.Option("--classes", help="List every class with its number of samples.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Show what is in a model file: recognizer, classes, extractor, metric and threshold.

    Example: openworld inspect animals.ow --classes
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    facts, counts = read_facts(model)
    if as_json:
        per_class = [{"label": label, "samples": count} for label, count in counts.items()]
        typer.echo(json.dumps({**facts, "per_class": per_class} if classes else facts, ensure_ascii=False))
        return
    table = Table(show_header=False)
    for name, value in facts.items():
        if value is not None:
            table.add_row(name, escape(shown(value)))
    Console().print(table)
    if classes:
        listing = Table("class", "samples")
        for label, count in counts.items():
            listing.add_row(escape(str(label)), shown(count))
        Console().print(listing)


def read_facts(model: Path) -> tuple[dict[str, Any], dict[Any, float]]:
    """Return the recognizer's settings in a model file, and the number of samples of each class."""
    from openworld import load
    from openworld.features.extractor import ExtractorId
    from openworld.model_file import read_description

    recognizer = load(model)
    description = read_description(model)
    counts = {label: recognizer.statistics_.count(label) for label in recognizer.classes_.tolist()}
    extractor = getattr(recognizer, "extractor_", None)
    calibration = getattr(recognizer, "calibration_", None)
    fold_taus = getattr(calibration, "fold_taus", None)
    facts = {
        "recognizer": type(recognizer).__name__,
        "written by openworld": description["openworld_version"],
        "classes": len(counts),
        "samples": sum(counts.values()),
        "features": recognizer.n_features_in_,
        "extractor": None if extractor is None else str(ExtractorId.from_dict(extractor)),
        "metric": type(recognizer.metric_).__name__,
        "dimensions": len(recognizer.metric_.get_feature_names_out()),
        "unknown is called": recognizer.unknown_label_,
        "tau": getattr(recognizer, "tau_", None),
        "tau of each fold": None if fold_taus is None else list(fold_taus),
        "threshold": getattr(calibration, "threshold", None),
        "OSCR area when classes are left out": getattr(calibration, "quality", None),
        "self-check": getattr(recognizer, "self_check_", None),
        "file bytes": model.stat().st_size,
    }
    return facts, counts


def shown(value: object) -> str:
    """Return a fact as text, without digits that say nothing."""
    if isinstance(value, list):
        return ", ".join(f"{tau:.4g}" for tau in value)
    return f"{value:,.6g}" if isinstance(value, float) else str(value)
