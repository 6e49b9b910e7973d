"""`openworld compare`: differences between two runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer


def compare(
    first: Annotated[Path, typer.Argument(help="Folder of the first run.")],
    second: Annotated[Path, typer.Argument(help="Folder of the second run.")],
    measure: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A measure in results.csv. Repeat the option for several."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Compare the results of two evaluation runs, paired over class orders.

    Example: openworld compare report-a report-b
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from openworld.cli.console import messages
    from openworld.evaluation.compare import COMPARED
    from openworld.evaluation.compare import compare as compare_runs

    differences = compare_runs(first, second, tuple(measure) if measure else COMPARED)
    if as_json:
        typer.echo(json.dumps([{**asdict(d), "significant": d.significant} for d in differences]))
        return
    terminal = Console()
    for (data, recognizer), some in groupby(differences, key=lambda d: (d.data, d.recognizer)):
        # A table for each data set and recognizer: with them as columns, 80 characters are too few.
        table = Table("K", "U", "measure", "first", "second", "change", "95 % interval", box=None)
        for d in some:
            interval = "" if d.interval is None else f"{d.interval.low:+.4f} to {d.interval.high:+.4f}"
            mark = "[bold] *[/]" if d.significant else ""
            values = f"{d.first:.4f}", f"{d.second:.4f}", f"{d.second - d.first:+.4f}"
            table.add_row(str(d.K), str(d.U), d.measure, *values, interval + mark)
        terminal.print(f"[bold]{escape(Path(data).stem)}, {escape(recognizer)}[/]")
        terminal.print(table)
    n = sum(d.significant for d in differences)
    messages.print(
        f"{n} of {len(differences)} differences are significant (*: the 95 % interval excludes 0)."
    )
