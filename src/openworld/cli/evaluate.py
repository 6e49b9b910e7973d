"""`openworld evaluate`: the paper's experiments, or your own."""

from __future__ import annotations

import sys
from dataclasses import asdict, fields, replace
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any

import typer
from rich.markup import escape

from openworld.cli.options import JsonOption, LabelColumnOption

ExperimentArgument = Annotated[
    str,
    typer.Argument(help="The name of an experiment, see above; or a .toml file with one of your own."),
]
OutputOption = Annotated[
    Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for tables, figures and report.")
]
DataOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="DATA",
        help="letters (built in); a .npz, .csv or .parquet file with labels; a folder of pictures with one "
        "sub-folder per class; texts with labels; or a folder of ILSVRC'10 .sbow.mat files. photos@pixels "
        "uses the extractor pixels. Repeat the option for several data sets.",
    ),
]
RecognizerOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Name of a recognizer, or your own class as package.module:Class. The module can be in the "
        "current folder. Repeat the option for several.",
    ),
]
OrdersOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Number of class orders. Default: 5; leaderboard, few-shot and discovery 3; loop 2.",
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Random seed of classes, samples and orders. Default: 0; discovery and loop 31."
    ),
]
_HEADER_WIDTH = 12  # of a measure, so that 80 columns are enough

WorkersOption = Annotated[
    int | None, typer.Option(metavar="N", help="Number of processes. Default: one per core.")
]


def evaluate(
    experiment: ExperimentArgument,
    output: OutputOption = Path("report"),
    data: DataOption = None,
    label_column: LabelColumnOption = None,
    recognizer: RecognizerOption = None,
    orders: OrdersOption = None,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run an open-world experiment and write its tables, figures and report.

    paper-50: the paper's Figure 3, from 50 to 200 known classes.

    paper-200: the same from 200 to 500 known classes.

    softmax-threshold: a threshold on the softmax (NCM-STH) beside NCM and NNO.

    tau-sweep: accuracy at half to one and a half times the threshold.

    features: three kinds of features of the same samples.

    leaderboard: every recognizer, with 60 known and 40 unknown classes.

    few-shot: new classes learned from 1 to 20 samples each.

    discovery: clusters of what is rejected, beside other methods.

    loop: a person with few actions names what is rejected.

    The paper's Figure 3: openworld evaluate paper-50 --data letters --output report/

    Two recognizers: openworld evaluate paper-50 --data photos/ --recognizer openworld --recognizer NNO

    Two extractors: openworld evaluate paper-50 --data photos@pixels --data photos

    To resume an interrupted run, run the same command again.
    """
    from openworld.cli.console import Progress, need

    need("matplotlib", "jinja2", extra="evaluate")
    from openworld.evaluation.experiment import named_or_read
    from openworld.evaluation.pool_experiments import POOL_EXPERIMENTS
    from openworld.evaluation.report import write_report
    from openworld.evaluation.run import run_experiment

    sys.path.append(str(Path.cwd()))  # so that your own recognizer is found here
    given = {
        "data": tuple(data) if data else None,
        "recognizers": tuple(recognizer) if recognizer else None,
        "orders": orders,
        "seed": seed,
    }
    changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if experiment in POOL_EXPERIMENTS:
        _evaluate_pool(experiment, changes, output, label_column, as_json=as_json)
        return
    chosen = replace(named_or_read(experiment, POOL_EXPERIMENTS), **changes)
    for name in chosen.data:
        _extract(name, label_column)
    with Progress(chosen.name) as progress:
        run_experiment(
            chosen,
            output,
            label_column=label_column,
            workers=workers,
            progress=lambda done, total, what: progress.update(done, total, f"{chosen.name}: {what}"),
        )
        progress.update(progress.done, progress.total, "Drawing")
        page = write_report(output)
    _say_results(output, page, as_json=as_json)


def _evaluate_pool(
    name: str, settings: dict[str, Any], output: Path, label_column: str | None, *, as_json: bool
) -> None:
    """Run an experiment on the unknown pool, which has its own result rows."""
    from openworld.cli.console import Progress, print_summary, show_notes
    from openworld.evaluation.pool_experiments import POOL_EXPERIMENTS, run
    from openworld.evaluation.run import read_facts

    kind = POOL_EXPERIMENTS[name].kind
    if "recognizers" in settings and "recognizers" not in {field.name for field in fields(kind)}:
        raise ValueError(f"{name} compares methods of its own and takes no --recognizer.")
    chosen = kind(**settings)
    for data in chosen.data:
        _extract(data, label_column)
    with Progress(name) as progress:
        page = run(
            name,
            chosen,
            output,
            lambda done, total, what: progress.update(done, total, f"{name}: {what}"),
            label_column,
        )
    facts = read_facts(output)
    summary = {"report": str(page), "means": facts["means"], "notes": facts["notes"]}
    if not as_json:
        _show_means(facts["means"])
        show_notes(facts["notes"])
    print_summary(summary, f"Wrote {escape(str(page))}.", as_json=as_json)


def _extract(name: str, label_column: str | None) -> None:
    """Extract features of pictures or texts into the cache first, with a progress bar."""
    from openworld.cli.extract import read_all
    from openworld.cli.pipeline import open_data, report_skipped
    from openworld.data.columns import Columns
    from openworld.evaluation.datasets import is_source, split_name
    from openworld.samples import Extraction

    path, extractor = split_name(name)
    if is_source(path, label_column):
        columns = Columns(label_column)
        stream = open_data(path, extraction=Extraction(extractor), columns=columns, need_labels=True)
        batch = read_all(stream, cache=True)
        report_skipped(stream, batch.n_unlabeled, batch.failures)


def _say_results(output: Path, page: Path, *, as_json: bool) -> None:
    """Print the main figures and the findings, in words or as JSON."""
    from openworld.cli.console import messages, print_summary
    from openworld.evaluation.report import scaled_words
    from openworld.evaluation.run import read_facts, read_results
    from openworld.evaluation.summary import findings, means
    from openworld.evaluation.table import Table

    facts, table = read_facts(output), Table.of(read_results(output))
    found, main = findings(table), means(table)
    if not as_json:
        for words in scaled_words(facts):
            messages.print(escape(words))
        _show_means(main)
        for finding in found:
            messages.print(
                f"{escape(finding.claim)}: [bold]{finding.verdict}[/]. {escape(finding.evidence)}."
            )
    summary = {
        "report": str(page),
        "seconds": facts["seconds"],
        "peak_mib": facts["peak_mib"],
        "means": main,
        "findings": [asdict(finding) for finding in found],
    }
    time_and_memory = f"{facts['seconds']:.0f} s of computing, {facts['peak_mib']:.0f} MiB peak memory"
    print_summary(summary, f"{time_and_memory}. Wrote {escape(str(page))}.", as_json=as_json)


def _show_means(means: list[dict[str, Any]]) -> None:
    """Print the main figures, a table for each data set."""
    from rich.table import Column, Table

    from openworld.cli.console import messages
    from openworld.evaluation.report import SHOWN

    for data, lines in groupby(means, key=lambda line: line["data"]):
        some = [{key: value for key, value in line.items() if key != "data"} for line in lines]
        columns = [Column(fill(SHOWN.get(key, key), _HEADER_WIDTH), overflow="fold") for key in some[0]]
        table = Table(*columns, box=None, pad_edge=False)
        for line in some:
            table.add_row(*(_cell(value) for value in line.values()))
        messages.print(f"[bold]{escape(Path(data).stem)}[/], means over class orders")
        messages.print(table)


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return "" if value is None else escape(str(value))
    return f"{value:.3f}" if value < 10 else f"{value:,.0f}"
