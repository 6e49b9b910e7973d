"""`openworld recognize`: name samples or answer unknown."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

if TYPE_CHECKING:
    from openworld.data.tables import Samples

_ROWS_IN_TERMINAL = 20
_CHUNK = 4096


def recognize(
    model: Annotated[Path, typer.Argument(help="The model file.")],
    data: Annotated[
        Path, typer.Argument(help="Samples: .npz, .npy, .csv or .parquet; labels are not needed.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the answers here: .csv or .json.")
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(help="The column with the true labels, to be compared with.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answers as JSON.")] = False,
) -> None:
    """Name each sample, or answer unknown; with labels in the data, say how many answers are right.

    Example: openworld recognize animals.ow new.csv -o answers.csv
    """
    from openworld import load
    from openworld.cli.console import messages
    from openworld.data.tables import DataError, read_samples

    if output is not None and output.suffix not in (".csv", ".json"):
        raise DataError(f"{output}: answers can be written as .csv or .json.")
    recognizer = load(model)
    samples = read_samples(data, label_column=label_column)
    rows = _answers(recognizer, samples)
    if output is not None:
        with output.open("w", newline="", encoding="utf-8") as file:
            _write(rows, file, as_json=output.suffix == ".json")
    elif as_json:
        _write(rows, sys.stdout, as_json=True)
    elif sys.stdout.isatty():
        _show(rows)
    else:
        _write(rows, sys.stdout, as_json=False)
    messages.print(_summary(recognizer, samples, rows))


def _answers(recognizer: Any, samples: Samples) -> list[dict[str, Any]]:
    from openworld.cli.console import progress_bar

    rows: list[dict[str, Any]] = []
    with progress_bar() as progress:
        task = progress.add_task("Recognizing", total=len(samples))
        for start in range(0, len(samples), _CHUNK):
            X = samples.X[start : start + _CHUNK]
            nearest, distances = recognizer.nearest_classes(X, 1)
            for answer, near, distance in zip(
                recognizer.predict(X).tolist(), nearest[:, 0].tolist(), distances[:, 0].tolist(), strict=True
            ):
                row = {
                    "sample": len(rows) + 1,
                    "answer": answer,
                    "unknown": answer == recognizer.unknown_label_,
                    "nearest_class": near,
                    "distance": distance,
                }
                rows.append(row)
            progress.update(task, completed=len(rows))
    return rows


def _write(rows: list[dict[str, Any]], file: TextIO, *, as_json: bool) -> None:
    if as_json:
        json.dump(rows, file, ensure_ascii=False, indent=1)
        file.write("\n")
        return
    table = csv.DictWriter(file, fieldnames=list(rows[0]))
    table.writeheader()
    table.writerows(rows)


def _show(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("sample", "answer", "nearest class", "distance")
    for row in rows[:_ROWS_IN_TERMINAL]:
        answer = "[yellow]unknown[/]" if row["unknown"] else escape(str(row["answer"]))
        table.add_row(str(row["sample"]), answer, escape(str(row["nearest_class"])), f"{row['distance']:.4g}")
    Console().print(table)
    if len(rows) > _ROWS_IN_TERMINAL:
        Console().print(f"... and {len(rows) - _ROWS_IN_TERMINAL:,} more; write them all with --output.")


def _summary(recognizer: Any, samples: Samples, rows: list[dict[str, Any]]) -> str:
    from openworld.cli.console import plural

    unknown = sum(row["unknown"] for row in rows)
    text = f"{plural(len(rows), 'sample')}: {len(rows) - unknown:,} recognized, {unknown:,} unknown."
    if samples.y is None:
        return text
    known = set(recognizer.classes_.tolist())
    right = sum(
        row["answer"] == label if label in known else row["unknown"]
        for row, label in zip(rows, samples.y.tolist(), strict=True)
    )
    return f"{text} {right:,} of {len(rows):,} answers are right ({right / len(rows):.1%})."
