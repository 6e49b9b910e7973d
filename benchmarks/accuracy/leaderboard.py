"""Make docs/leaderboard tables and the accuracy-against-cost figure from the leaderboard's results.

python -m benchmarks.accuracy.leaderboard > docs/leaderboard-tables.md
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from openworld.evaluation.recognizers import RECOGNIZERS
from openworld.evaluation.run import read_results
from openworld.evaluation.table import Table

RESULTS = Path("benchmarks/accuracy/results")
FIGURE = Path("docs/images/leaderboard.png")
MEASURES = {
    "open_world_error": "open-world error",
    "pooled_accuracy": "pooled accuracy",
    "f1_macro": "F1",
    "auroc": "AUROC",
    "oscr_area": "OSCR",
    "forced_accuracy": "closed accuracy",
}


def main() -> None:
    runs = sorted(path for path in RESULTS.glob("leaderboard-*") if (path / "results.csv").is_file())
    figure = Figure(figsize=(3.4 * len(runs), 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(runs), squeeze=False)[0]
    for run, panel in zip(runs, panels, strict=True):
        table, timings = Table.of(read_results(run)), read_timings(run)
        print(f"\n### {run.name.removeprefix('leaderboard-')}\n")
        print_table(table, timings)
        draw(panel, run.name.removeprefix("leaderboard-"), table, timings)
    panels[0].set_ylabel("OSCR area, mean over stages")
    figure.savefig(FIGURE, dpi=150)


def read_timings(run: Path) -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with (run / "timings.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            found[row["recognizer"]][row["what"]].append(float(row["seconds"]))
    return found


def costs(table: Table, timings: dict[str, list[float]]) -> tuple[float, float, float]:
    """Seconds to fit, seconds per added class, microseconds per prediction."""
    known = table.known(table.data[0])
    per_class = float(np.mean(timings["seconds_learn"])) / np.mean(np.diff(known)) if len(known) > 1 else 0.0
    return (
        float(np.mean(timings["seconds_fit"])),
        float(per_class),
        1e6 * float(np.mean(timings["seconds_predict"])),
    )


def print_table(table: Table, timings: dict[str, dict[str, list[float]]]) -> None:
    data = table.data[0]
    U, last = table.unknown(data)[-1], table.known(data)[-1]
    names = sorted(
        table.recognizers, key=lambda name: table.over_stages(data, name, U, "open_world_error").mean()
    )
    print(
        "| recognizer | retrains |",
        " | ".join(MEASURES.values()),
        "| fit s | s per class | us per sample | MiB |",
    )
    print("|---|---|" + "---|" * (len(MEASURES) + 4))
    for name in names:
        values = [table.over_stages(data, name, U, measure) for measure in MEASURES]
        cells = " | ".join(f"{value.mean():.3f} ± {value.std():.3f}" for value in values)
        fit, per_class, predict = costs(table, timings[name])
        size = table.cell(data, name, last, 0, "model_mib").mean()
        retrains = "yes" if getattr(RECOGNIZERS[name](), "retrains", False) else ""
        bold = "**" if name == "openworld" else ""
        cost = f"{fit:.2f} | {per_class:.4f} | {predict:.0f} | {size:.1f}"
        print(f"| {bold}{name}{bold} | {retrains} | {cells} | {cost} |")


def draw(panel: object, title: str, table: Table, timings: dict[str, dict[str, list[float]]]) -> None:
    data = table.data[0]
    U = table.unknown(data)[-1]
    for name in table.recognizers:
        cost = costs(table, timings[name])[1]
        score = table.over_stages(data, name, U, "oscr_area").mean()
        ours, retrains = name == "openworld", getattr(RECOGNIZERS[name](), "retrains", False)
        panel.plot(  # type: ignore[attr-defined]
            max(cost, 1e-5), score, "*" if ours else "s" if retrains else "o",
            color="#D55E00" if ours else "#999999" if retrains else "#0072B2", markersize=13 if ours else 6,
        )  # fmt: skip
        panel.annotate(  # type: ignore[attr-defined]
            name, (max(cost, 1e-5), score), fontsize=6, xytext=(3, 3), textcoords="offset points"
        )
    panel.set_xscale("log")  # type: ignore[attr-defined]
    panel.margins(x=0.3)  # type: ignore[attr-defined]
    panel.set_title(title, fontsize=10)  # type: ignore[attr-defined]
    panel.set_xlabel("seconds per added class")  # type: ignore[attr-defined]
    panel.grid(alpha=0.25)  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
