"""The experiments `discovery`, `loop` and `few-shot`: run job by job, resumable, and reported."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from threadpoolctl import threadpool_limits

from openworld._version import __version__
from openworld.data.dataset import Dataset
from openworld.evaluation import discovery, few_shot, loop
from openworld.evaluation.datasets import load
from openworld.evaluation.figures import line_style
from openworld.evaluation.recognizers import code_version
from openworld.files import write_atomic

Progress = Callable[[int, int, str], None]
Row = dict[str, Any]
COLORS = ("#009E73", "#0072B2", "#D55E00", "#CC79A7")


@dataclass(frozen=True)
class PoolExperiment:
    """An experiment with rows of its own: what it measures, and how it is shown.

    `keys` are the columns that tell the lines of its main figures apart, `main` their measures and `last` the
    rows that they are the means of.
    """

    kind: type[Any]
    measure_order: Callable[[Any, Dataset, int], Iterator[Row]]
    columns: tuple[str, ...]
    table: Callable[[list[Row]], tuple[list[str], list[list[str]]]]
    draw: Callable[[list[Row]], Figure]
    caption: str
    keys: tuple[str, ...]
    main: tuple[str, ...]
    last: Callable[[list[Row]], list[Row]] = list
    notes: Callable[[list[Row]], list[str]] = lambda rows: []


def run(
    name: str,
    experiment: Any,
    output: Path,
    progress: Progress | None = None,
    label_column: str | None = None,
) -> Path:
    """Measure every class order of every data set; write `results.csv`, `run.json` and `report.html`.

    Finished jobs (a class order of a data set, and one recognizer where the experiment names several) are
    kept in the folder's `parts`; an interrupted run resumes there. The results depend on the
    experiment alone.
    """
    parts = output / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    chosen = POOL_EXPERIMENTS[name]
    jobs = [
        (data, order, piece)
        for data in experiment.data
        for order in range(experiment.orders)
        for piece in _pieces(experiment)
    ]
    datasets = {data: load(data, label_column) for data in experiment.data}
    rows: list[Row] = []
    for done, (data, order, piece) in enumerate(jobs):
        if progress is not None:
            who = "".join(f", {recognizer}" for recognizer in getattr(piece, "recognizers", ()))
            progress(done, len(jobs), f"{Path(data).stem}, order {order + 1}{who}")
        part = parts / f"{name}-{Path(data).stem}-{order}-{_digest(piece, datasets[data])}.json"
        if not part.is_file():
            with threadpool_limits(1):
                found = list(chosen.measure_order(piece, datasets[data], order))
            write_atomic(part, json.dumps(found).encode())
        rows += json.loads(part.read_text(encoding="utf-8"))
    if progress is not None:
        progress(len(jobs), len(jobs), "done")
    with (output / "results.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, chosen.columns, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    summary = {"means": means(name, rows), "notes": chosen.notes(rows)}
    facts = {"experiment": {"name": name, **asdict(experiment)}, **summary}
    (output / "run.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
    return write_report(name, rows, output)


def _pieces(experiment: Any) -> list[Any]:
    """Return the experiment for each of its recognizers; by itself where it names none."""
    if not hasattr(experiment, "recognizers"):
        return [experiment]
    return [replace(experiment, recognizers=(name,)) for name in experiment.recognizers]


def _digest(piece: Any, dataset: Dataset) -> str:
    """Return a short hash of what the rows of a job depend on besides its class order."""
    settings = {**asdict(piece), "data": dataset.fingerprint(), "orders": None}
    code = [__version__, *map(code_version, settings.get("recognizers", ()))]
    facts = repr((sorted(settings.items()), code))
    return hashlib.blake2b(facts.encode(), digest_size=6).hexdigest()


def means(name: str, rows: list[Row]) -> list[Row]:
    """Return the main figures of every method or recognizer: means over class orders."""
    chosen = POOL_EXPERIMENTS[name]
    lines: dict[tuple[Any, ...], list[Row]] = {}
    for row in chosen.last(rows):
        lines.setdefault(tuple(row[key] for key in chosen.keys), []).append(row)
    found = []
    for key, some in lines.items():
        spent = {
            column: float(np.mean([row[column] for row in some])) for column in _SPENT if column in some[0]
        }
        values = {measure: _mean(some, measure=measure) for measure in chosen.main}
        measured = {measure: None if np.isnan(value) else value for measure, value in values.items()}
        found.append({**dict(zip(chosen.keys, key, strict=True)), **spent, **measured})
    return found


def write_report(name: str, rows: list[Row], output: Path) -> Path:
    """Write `report.html` and `figure.png` of some results, and return the page's path."""
    chosen = POOL_EXPERIMENTS[name]
    figure = chosen.draw(rows)
    FigureCanvasAgg(figure)
    picture = BytesIO()
    figure.savefig(picture, dpi=110, bbox_inches="tight")
    (output / "figure.png").write_bytes(picture.getvalue())
    header, lines = chosen.table(rows)
    template = Environment(
        loader=PackageLoader("openworld.evaluation"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    ).get_template("pool_report.html.jinja")
    page = output / "report.html"
    source = "data:image/png;base64," + base64.b64encode(picture.getvalue()).decode()
    text = template.render(
        name=name,
        caption=chosen.caption,
        notes=chosen.notes(rows),
        figure=source,
        header=header,
        lines=lines,
    )
    page.write_text(text, encoding="utf-8")
    return page


def _mean(rows: list[Row], **where: Any) -> float:
    found = [row["value"] for row in rows if all(row[key] == value for key, value in where.items())]
    return float(np.nanmean(found)) if found else float("nan")


def _values(rows: list[Row], key: str) -> list[Any]:
    return list(dict.fromkeys(row[key] for row in rows))


def _cell(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.0f}" if value > 1 else f"{value:.2f}"


# -- discovery ------------------------------------------------------------------------------------


def _discovery_table(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Return a line for each data set, number of unknown classes and method: means over class orders."""
    lines = []
    for data in _values(rows, "data"):
        of_data = [row for row in rows if row["data"] == data]
        for U in _values(of_data, "U"):
            of_pool = [row for row in of_data if row["U"] == U]
            for method in _values(of_pool, "method"):
                cells = [_cell(_mean(of_pool, method=method, measure=m)) for m in discovery.MEASURES]
                lines.append([data, str(of_pool[0]["K"]), str(U), method, *cells])
    return ["data", "K", "U", "method", *discovery.MEASURES], lines


def _discovery_figure(rows: list[Row]) -> Figure:
    """Draw ARI of all methods, a panel for each data set."""
    names, methods = _values(rows, "data"), _values(rows, "method")
    figure = Figure(figsize=(3.2 * len(names), 3.2))
    panels = figure.subplots(1, len(names), squeeze=False, sharey=True)[0]
    for panel, data in zip(panels, names, strict=True):
        pools = _values([row for row in rows if row["data"] == data], "U")
        for i, method in enumerate(methods):
            heights = [_mean(rows, data=data, U=U, method=method, measure="ARI") for U in pools]
            places = np.arange(len(pools)) + 0.2 * (i - (len(methods) - 1) / 2)
            panel.bar(places, heights, 0.18, color=COLORS[i], label=method)
        panel.set_xticks(range(len(pools)), [f"U = {U}" for U in pools])
        panel.set_title(data)
    panels[0].set_ylabel("adjusted Rand index")
    figure.legend(*panels[0].get_legend_handles_labels(), ncols=len(methods), loc="lower center",
                  bbox_to_anchor=(0.5, -0.08), frameon=False)  # fmt: skip
    return figure


# -- loop -----------------------------------------------------------------------------------------

LOOP_MEASURES = ("accuracy", "classes discovered", "wrong accepts", "likeliest class right")
_SPENT = ("actions", "labeled")
LOOP_SPENT = {"actions": "actions of a person", "labeled": "samples labeled"}


def _loop_table(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Return a line for each data set, method and round: means over class orders."""
    lines = []
    for data in _values(rows, "data"):
        for method in _values(rows, "method"):
            for step in _values(rows, "round"):
                some = [
                    row for row in rows if (row["data"], row["method"], row["round"]) == (data, method, step)
                ]
                if some:
                    spent = [f"{np.mean([row[key] for row in some]):.0f}" for key in ("actions", "labeled")]
                    cells = [_cell(_mean(some, measure=measure)) for measure in LOOP_MEASURES]
                    lines.append([data, method, str(step), *spent, *cells])
    return ["data", "method", "round", "actions", "samples labeled", *LOOP_MEASURES], lines


def _loop_figure(rows: list[Row]) -> Figure:
    """Draw each measure against actions and against samples labeled, two rows of panels for each data set."""
    names, methods = _values(rows, "data"), _values(rows, "method")
    lines = [(data, spent) for data in names for spent in LOOP_SPENT]
    figure = Figure(figsize=(13, 2.8 * len(lines)))
    panels = figure.subplots(len(lines), len(LOOP_MEASURES), squeeze=False)
    for line, (data, spent) in zip(panels, lines, strict=True):
        for panel, measure in zip(line, LOOP_MEASURES, strict=True):
            for color, method in zip(COLORS, methods, strict=False):
                some = [row for row in rows if (row["data"], row["method"]) == (data, method)]
                steps = _values(some, "round")
                places = [np.mean([row[spent] for row in some if row["round"] == step]) for step in steps]
                values = [_mean(some, round=step, measure=measure) for step in steps]
                panel.plot(places, values, "o-", color=color, label=method, markersize=4)
            panel.set(xscale="log", xlabel=LOOP_SPENT[spent], title=f"{data}: {measure}", ylim=(0, None))
            panel.xaxis.set_minor_formatter(NullFormatter())
    figure.tight_layout()
    figure.legend(*panels[0][0].get_legend_handles_labels(), ncols=2, loc="upper center",
                  bbox_to_anchor=(0.5, 0.0), frameon=False)  # fmt: skip
    return figure


def _last_round(rows: list[Row]) -> list[Row]:
    last = max((row["round"] for row in rows), default=0)
    return [row for row in rows if row["round"] == last]


def _loop_notes(rows: list[Row]) -> list[str]:
    """Name the methods that labeled every sample of a stream: they had more actions than it has samples."""
    notes = []
    for data in _values(rows, "data"):
        last = _last_round([row for row in rows if row["data"] == data and "stream" in row])
        some = [row for row in last if row["labeled"] < row["stream"]]
        every = [method for method in _values(last, "method") if method not in _values(some, "method")]
        if every:
            notes.append(
                f"On {data}, every sample of the stream ({last[0]['stream']:,}) was labeled at the end by: "
                f"{'; '.join(every)}. Their last values show what all labels give, at that many actions."
            )
    return notes


# -- few-shot -------------------------------------------------------------------------------------

FEW_SHOT_PANELS = ("new right", f"new right {few_shot.AT_FIXED}", "base OSCR", "unknown rejected")


def _few_shot_table(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Return a line for each data set, recognizer and number of samples: means over class orders."""
    lines = []
    for data in _values(rows, "data"):
        of_data = [row for row in rows if row["data"] == data]
        for name in _values(of_data, "recognizer"):
            for n in _values(of_data, "n"):
                cells = [_cell(_mean(of_data, recognizer=name, n=n, measure=m)) for m in few_shot.MEASURES]
                lines.append([data, name, str(n or "before"), *cells])
    return ["data", "recognizer", "samples", *few_shot.MEASURES], lines


def _about_five_samples(rows: list[Row]) -> list[Row]:
    """Return the rows with the largest number of samples up to five, or with the smallest."""
    numbers = [n for n in _values(rows, "n") if n not in (0, few_shot.ALL)]
    chosen = max((n for n in numbers if n <= 5), default=min(numbers, default=few_shot.ALL))
    return [row for row in rows if row["n"] == chosen]


def _few_shot_figure(rows: list[Row]) -> Figure:
    """Draw measures against the samples of a new class, a row of panels for each data set."""
    names, recognizers = _values(rows, "data"), _values(rows, "recognizer")
    figure = Figure(figsize=(3.4 * len(FEW_SHOT_PANELS), 3 * len(names)))
    panels = figure.subplots(len(names), len(FEW_SHOT_PANELS), squeeze=False)
    for line, data in zip(panels, names, strict=True):
        of_data = [row for row in rows if row["data"] == data]
        samples = [n for n in _values(of_data, "n") if n not in (0, few_shot.ALL)]
        for panel, measure in zip(line, FEW_SHOT_PANELS, strict=True):
            for name in recognizers:
                values = [_mean(of_data, recognizer=name, n=n, measure=measure) for n in samples]
                panel.plot(samples, values, label=name, **line_style(name, recognizers))
            panel.set_xscale("log")
            panel.set_xticks(samples, map(str, samples), minor=False)
            panel.set_xticks([], minor=True)
            panel.set(xlabel="samples of a new class", title=f"{data}: {measure}", ylim=(0, 1.02))
    figure.tight_layout()
    figure.legend(*panels[0][0].get_legend_handles_labels(), ncols=6, loc="upper center",
                  bbox_to_anchor=(0.5, 0), frameon=False)  # fmt: skip
    return figure


POOL_EXPERIMENTS = {
    "discovery": PoolExperiment(
        discovery.DiscoveryExperiment,
        discovery.measure_order,
        discovery.COLUMNS,
        _discovery_table,
        _discovery_figure,
        "Clusters of the samples that the recognizer rejects, with K known and U unknown classes. ARI is "
        "over all samples of the pool, those in no cluster as clusters of their own.",
        keys=("data", "U", "method"),
        main=("clusters", "purity", "ARI", "share clustered"),
    ),
    "loop": PoolExperiment(
        loop.LoopExperiment,
        loop.measure_order,
        loop.COLUMNS,
        _loop_table,
        _loop_figure,
        "A simulated deployment: accuracy on test samples of all classes of the stream, share of the "
        "unknown classes that were named, share of test samples that got a wrong name, and accuracy if "
        "nothing were rejected, against the actions of a person and the samples they label.",
        keys=("data", "method"),
        main=LOOP_MEASURES,
        last=_last_round,
        notes=_loop_notes,
    ),
    "few-shot": PoolExperiment(
        few_shot.FewShotExperiment,
        few_shot.measure_order,
        few_shot.COLUMNS,
        _few_shot_table,
        _few_shot_figure,
        "Base classes learned from all their samples, then new classes from a few each. Shares of the test "
        "samples of new and base classes that are named right, rejected or taken for another class, and of "
        "unknown samples rejected, at each recognizer's own threshold; at fixed rejection, with the "
        "threshold that rejects 85 % of the unknown test samples, unless the experiment sets another share.",
        keys=("data", "recognizer", "n"),
        main=FEW_SHOT_PANELS,
        last=_about_five_samples,
    ),
}
