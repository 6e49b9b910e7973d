"""Make the tables and the figure of docs/leaderboard.md and docs/leaderboard-tables.md.

    python -m benchmarks.accuracy.leaderboard

Writes docs/leaderboard-tables.md whole, and in docs/leaderboard.md what stands between the marks
`<!-- NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.accuracy.few_shot_tables import ALL, DATA, OURS, FewShot
from openworld.evaluation.recognizers import RECOGNIZERS, make_recognizer
from openworld.evaluation.run import read_results
from openworld.evaluation.table import Floats, Table

RESULTS = Path("benchmarks/accuracy/results")
PAGE, TABLES = Path("docs/leaderboard.md"), Path("docs/leaderboard-tables.md")
FIGURE = Path("docs/images/leaderboard.png")
MEASURES = {
    "open_world_error": "open-world error",
    "pooled_accuracy": "pooled accuracy",
    "f1_macro": "F1",
    "auroc": "AUROC",
    "oscr_area": "OSCR",
    "forced_accuracy": "closed accuracy",
}
ERROR, OSCR = "open_world_error", "oscr_area"
RETRAINS = {name: bool(getattr(make_recognizer(name), "retrains", False)) for name in RECOGNIZERS}


class Run:
    """The leaderboard of one data set: measures as means over the stages, one for each class order."""

    def __init__(self, name: str) -> None:
        folder = RESULTS / f"leaderboard-{name}"
        self.name, self.table = name, Table.of(read_results(folder))
        (self.data,) = self.table.data
        self.U = self.table.unknown(self.data)[-1]
        self.timings: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        with (folder / "timings.csv").open(newline="") as file:
            for row in csv.DictReader(file):
                self.timings[row["recognizer"]][row["what"]].append(float(row["seconds"]))

    def values(self, recognizer: str, measure: str) -> Floats:
        """Return the mean over the stages, one value for each class order."""
        return self.table.over_stages(self.data, recognizer, self.U, measure)

    def best(self, measure: str, *, retrains: bool | None = None) -> tuple[str, float]:
        """Return the best baseline and its value: of those that retrain, or do not, or of all."""
        names = [
            name
            for name in self.table.recognizers
            if name != OURS and (retrains is None or RETRAINS[name] == retrains)
        ]
        sign = 1 if measure == ERROR else -1
        name = min(names, key=lambda name: sign * float(self.values(name, measure).mean()))
        return name, float(self.values(name, measure).mean())

    def costs(self, recognizer: str) -> tuple[float, float, float]:
        """Return seconds to fit, seconds per added class, microseconds per prediction."""
        timings, known = self.timings[recognizer], self.table.known(self.data)
        per_class = float(np.mean(timings["seconds_learn"]) / np.mean(np.diff(known))) if known[1:] else 0.0
        return (
            float(np.mean(timings["seconds_fit"])),
            per_class,
            1e6 * float(np.mean(timings["seconds_predict"])),
        )


def main() -> None:
    runs = [Run(name) for name in DATA if (RESULTS / f"leaderboard-{name}/results.csv").is_file()]
    few = FewShot.read(RESULTS)
    TABLES.write_text(tables_page(runs, few), encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    blocks = {
        "summary": summary(runs, few),
        "targets": targets(runs, few),
        "few-shot ours": few.ours(),
        "few-shot baselines": few.baselines(),
    }
    PAGE.write_text(fill(text, blocks), encoding="utf-8")
    draw(runs)


def fill(page: str, blocks: dict[str, str]) -> str:
    """Return a page with each block between the marks of its name."""
    for name, block in blocks.items():
        page, n_filled = re.subn(
            rf"(<!-- {name} -->\n).*?(<!-- end -->)", partial(_filled, block), page, flags=re.DOTALL
        )
        assert n_filled == 1, f"The page has no mark <!-- {name} -->."
    return page


def _filled(block: str, match: re.Match[str]) -> str:
    return f"{match[1]}\n{block}\n{match[2]}"


def markdown(header: list[str], lines: list[list[str]]) -> str:
    """Return a table."""
    return "".join(f"| {' | '.join(line)} |\n" for line in (header, ["---"] * len(header), *lines))


def summary(runs: list[Run], few: FewShot) -> str:
    """Return a line for each data set: ours, and the best baselines by name."""
    lines = []
    for run in runs:
        cells = [run.name]
        for measure in (ERROR, OSCR):
            incremental, retrained = (run.best(measure, retrains=retrains) for retrains in (False, True))
            cells.append(f"**{run.values(OURS, measure).mean():.3f}**")
            cells += [f"{value:.3f} {name}" for name, value in (incremental, retrained)]
        cells.append(few.recall_of_best(run.name))
        lines.append(cells)
    header = ["data", "error: ours", "best incremental", "best retrained", "OSCR: ours", "best incremental",
              "best retrained", "recall at 5: ours, best baseline"]  # fmt: skip
    return markdown(header, lines)


def targets(runs: list[Run], few: FewShot) -> str:
    """Return what was asked for and what was reached, a line for each data set."""
    lines = []
    for run in runs:
        error, oscr = (float(run.values(OURS, measure).mean()) for measure in (ERROR, OSCR))
        incremental, retrained = (error - run.best(ERROR, retrains=retrains)[1] for retrains in (False, True))
        ahead = oscr - run.best(OSCR)[1]
        cells = [
            (f"{incremental:+.3f}", incremental < 0),
            (f"{retrained:+.3f}", retrained <= 0.01),
            (f"{ahead:+.3f}", ahead >= 0),
            (few.gain_in_words(run.name, 5), few.gain(run.name, 5) >= 1.4),
            (few.gain_in_words(run.name, 1), few.gain(run.name, 1) >= 2),
            (
                f"{few.paid(run.name, 5):+.3f} ({few.paid(run.name, 5, ALL):+.3f})",
                few.paid(run.name, 5) >= -0.01,
            ),
        ]
        lines.append([run.name, *(f"{text} {'yes' if reached else '**no**'}" for text, reached in cells)])
    header = ["data", "error, best incremental (below 0)", "error, best retrained (at most +.01)",
              "OSCR, best of all (at least 0)", "recall at n = 5 (x 1.4)", "recall at n = 1 (x 2)",
              "base OSCR at n = 5 (at least -.01)"]  # fmt: skip
    return markdown(header, lines)


def tables_page(runs: list[Run], few: FewShot) -> str:
    """Return the page of long tables."""
    parts = [
        "# Leaderboard: all recognizers\n\n"
        "Made by `python -m benchmarks.accuracy.leaderboard`; the reading is on the page "
        "[Leaderboard](leaderboard.md). Means over the stages ± deviation over class orders, sorted by "
        "open-world error. *Recall at 5*: test samples of new classes, learned from 5 samples each, that are "
        "named right where 85 % of the unknown samples are rejected; empty where it was not run.\n"
    ]
    for run in runs:
        orders = len(run.values(OURS, ERROR))
        left_out = [name for name in RECOGNIZERS if name not in run.table.recognizers]
        note = f" Not run, for want of time: {', '.join(left_out)}." if left_out else ""
        parts.append(f"\n## {run.name}\n\n{orders} class orders of seed 100.{note}\n\n{long_table(run, few)}")
    return "".join(parts)


def long_table(run: Run, few: FewShot) -> str:
    """Return a line for each recognizer of a data set."""
    last, lines = run.table.known(run.data)[-1], []
    for name in sorted(run.table.recognizers, key=lambda name: run.values(name, ERROR).mean()):
        cells = [run.values(name, measure) for measure in MEASURES]
        fit, per_class, predict = run.costs(name)
        size = run.table.cell(run.data, name, last, 0, "model_mib").mean()
        lines.append(
            [
                f"**{name}**" if name == OURS else name,
                "yes" if RETRAINS[name] else "",
                *(f"{cell.mean():.3f} ± {cell.std():.3f}" for cell in cells),
                few.recall(run.name, name),
                f"{fit:.2f}",
                f"{per_class:.4f}",
                f"{predict:.0f}",
                f"{size:.1f}",
            ]
        )
    costs = ["fit s", "s per class", "us per sample", "MiB"]
    return markdown(["recognizer", "retrains", *MEASURES.values(), "recall at 5", *costs], lines)


def draw(runs: list[Run]) -> None:
    """Draw OSCR area against the cost of a class, a panel for each data set."""
    figure = Figure(figsize=(14, 7), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, 4).ravel()
    for panel, run in zip(panels, runs, strict=False):
        draw_run(panel, run)
    for spare in panels[len(runs) :]:
        spare.set_visible(False)
    figure.supylabel("OSCR area, mean over stages", fontsize=10)
    figure.savefig(FIGURE, dpi=130)


def draw_run(panel: Axes, run: Run) -> None:
    for name in run.table.recognizers:
        place = max(run.costs(name)[1], 1e-5), float(run.values(name, OSCR).mean())
        style: dict[str, Any] = {"marker": "o", "color": "#0072B2", "markersize": 6}
        if RETRAINS[name]:
            style = {"marker": "s", "color": "#999999", "markersize": 6}
        if name == OURS:
            style = {"marker": "*", "color": "#D55E00", "markersize": 13}
        panel.plot(*place, **style)
        panel.annotate(name, place, fontsize=6, xytext=(3, 3), textcoords="offset points")
    panel.set_xscale("log")
    panel.margins(x=0.3)
    panel.set_title(run.name, fontsize=10)
    panel.set_xlabel("seconds per added class")
    panel.grid(alpha=0.25)


if __name__ == "__main__":
    main()
