"""`openworld recognize`: name samples or answer unknown."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from openworld.cli.options import (
    CacheOption,
    DaskOption,
    ExtractorOption,
    OnError,
    OnErrorOption,
    WorkersOption,
)

if TYPE_CHECKING:
    from openworld.samples import Loaded

_ROWS_IN_TERMINAL = 20
_CHUNK = 4096


def recognize(
    model: Annotated[Path, typer.Argument(help="The model file.")],
    data: Annotated[
        str,
        typer.Argument(
            help="A folder of pictures, a picture, a .zip, texts (.txt, .csv, .jsonl) or vectors (.npz, "
            ".npy, .csv, .parquet, .arrow): of the kind the model was fitted on. Labels are not needed. "
            "Also an address (s3://...) or a pattern."
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the answers here: .csv or .json.")
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(help="The column with the true labels, to be compared with.")
    ] = None,
    sheet: Annotated[
        Path | None,
        typer.Option(
            help="Write a page (.html) with the pictures by class, and the unknown ones by cluster."
        ),
    ] = None,
    extractor: ExtractorOption = None,
    on_error: OnErrorOption = OnError.skip,
    workers: WorkersOption = None,
    cache: CacheOption = True,
    dask: DaskOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answers as JSON.")] = False,
) -> None:
    """Name each sample, or answer unknown; with labels in the data, say how many answers are right.

    Pictures: openworld recognize animals.ow new-photos/ --sheet sheet.html

    To a file: openworld recognize animals.ow new-photos/ -o answers.csv
    """
    from openworld import load as load_model
    from openworld.cli.console import messages, need
    from openworld.cli.loading import load, tell_left_out
    from openworld.cli.streamed_answers import recognize_stream
    from openworld.cli.streaming import open_streamed
    from openworld.data.tables import DataError

    if output is not None and output.suffix not in (".csv", ".json"):
        raise DataError(f"{output}: answers can be written as .csv or .json.")
    for path in (output, sheet):
        if path is not None and not path.parent.is_dir():
            raise FileNotFoundError(f"{path}: the folder {path.parent} does not exist.")
    if sheet is not None:
        need("jinja2", extra="images")
    recognizer = load_model(model)
    options: dict[str, Any] = {
        "model": recognizer,
        "extractor": extractor,
        "label_column": label_column,
        "on_error": on_error.value,
        "workers": workers,
        "cache": cache,
    }
    stream = open_streamed(data, dask=dask, **options)
    if stream is not None:
        if sheet is not None or as_json or (output is not None and output.suffix != ".csv"):
            raise DataError(f"{data} is streamed: its answers are written as .csv, without a sheet.")
        recognize_stream(recognizer, stream, output, dask)
        return
    loaded = load(data, **options)
    rows = _answers(recognizer, loaded)
    if output is not None:
        with output.open("w", newline="", encoding="utf-8") as file:
            _write(rows, file, as_json=output.suffix == ".json")
    elif as_json:
        _write(rows, sys.stdout, as_json=True)
    elif sys.stdout.isatty():
        _show(rows)
    else:
        _write(rows, sys.stdout, as_json=False)
    messages.print(_summary(recognizer, loaded, rows))
    if sheet is not None:
        from openworld.cli.contact_sheet import write_sheet

        write_sheet(sheet, f"{model.name}: {Path(data).name}", recognizer, loaded, rows)
        messages.print(f"Wrote {sheet}.")
    tell_left_out(loaded)


def _answers(recognizer: Any, loaded: Loaded) -> list[dict[str, Any]]:
    from openworld.cli.console import progress_bar

    samples = loaded.samples
    name = "text" if loaded.source is not None and loaded.source.kind == "text" else "name"
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
                    **({} if samples.names is None else {name: samples.names[len(rows)]}),
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
        shown = escape(str(row.get("name", row.get("text", row["sample"]))))
        table.add_row(shown, answer, escape(str(row["nearest_class"])), f"{row['distance']:.4g}")
    Console().print(table)
    if len(rows) > _ROWS_IN_TERMINAL:
        Console().print(f"... and {len(rows) - _ROWS_IN_TERMINAL:,} more; write them all with --output.")


def _summary(recognizer: Any, loaded: Loaded, rows: list[dict[str, Any]]) -> str:
    from openworld.cli.loading import count_words

    unknown = sum(row["unknown"] for row in rows)
    text = f"{count_words(loaded)}: {len(rows) - unknown:,} recognized, {unknown:,} unknown."
    labels = [] if loaded.samples.y is None else loaded.samples.y.tolist()
    known = set(recognizer.classes_.tolist())
    if loaded.source is not None and loaded.source.labels_are_folders and not known & set(labels):
        labels = []  # folders that are no classes, but perhaps years or places
    right = [
        row["answer"] == label if label in known else row["unknown"]
        for row, label in zip(rows, labels, strict=False)
        if label != ""
    ]
    if not right:
        return text
    return f"{text} {sum(right):,} of {len(right):,} answers are right ({sum(right) / len(right):.1%})."
