"""The figures of a report: the paper's curves, OSCR, score histograms, reliability, confusion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from openworld.evaluation.measures import Scores, oscr_curve
from openworld.evaluation.reliability import Reliability, reliability
from openworld.evaluation.run import read_scores
from openworld.evaluation.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette, distinct for color-blind readers; markers and dashes are distinct in print. Blue is
# for our own recognizer, which is drawn above the others.
_OURS = {"color": "#0072B2", "marker": "o", "linestyle": "-", "linewidth": 3.0, "zorder": 3}
_COLORS = ("#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000", "#8C8C8C")
_MARKERS = ("s", "^", "D", "v", "P", "X", "*")
_DASHES = ("-", "--", ":", "-.")
_KNOWN, _UNKNOWN = "#0072B2", "#D55E00"


def draw_all(table: Table, output: Path) -> list[tuple[Path, str]]:
    """Draw every figure that the run has data for; return (PNG path, caption) in reading order."""
    folder = output / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for data in table.data:
        for name, caption, figure in _figures(table, data, output):
            # Two data sets in different folders may have the same name.
            number = "" if len(table.data) == 1 else f"-{table.data.index(data) + 1}"
            stem = f"{name}-{Path(data).stem}{number}"
            for ending in ("png", "svg"):
                figure.savefig(folder / f"{stem}.{ending}", dpi=160)
            drawn.append((folder / f"{stem}.png", caption))
    return drawn


def _figures(table: Table, data: str, output: Path) -> Iterator[tuple[str, str, Figure]]:
    name = Path(data).stem
    yield (
        "curves",
        f"{name}: accuracy against known classes, closed set (CS) and open set (OS), one panel for each "
        "number of unknown classes. Lines are means over class orders, bands one standard deviation.",
        _curves(table, data),
    )
    if len(table.known(data)) > 1 and table.unknown(data):
        yield "surface", f"{name}: accuracy over known and unknown classes.", _surface(table, data)
    if table.unknown(data):
        yield (
            "oscr",
            f"{name}: OSCR: correct classification rate against false positives, mean over class orders.",
            _oscr(table, data, output),
        )
        yield (
            "scores",
            f"{name}: scores of known and unknown samples at the last stage of the first class order, with "
            "the threshold of those that have one. The leftmost bar holds everything below it.",
            _histograms(table, data, output),
        )
        reliable = _reliability(table, data, output)
        if reliable is not None:
            yield (
                "reliability",
                f"{name}: share of right answers against membership at the last stage, known and unknown "
                "samples counting the same; on the diagonal a membership means what it says. Bold: mean over "
                "class orders, its dots as large as the share of samples.",
                reliable,
            )
        yield "confusion", f"{name}: how known and unknown samples were classified.", _confusion(table, data)
    if len(table.tau_factors) > 1:
        yield "tau", f"{name}: accuracy against the threshold, as a multiple of tau.", _tau_sweep(table, data)


def _new(n_panels: int, width: float = 3.6, height: float = 3.4) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels side by side, at most four in a row."""
    rows, columns = _grid(n_panels)
    figure = _figure(max(6.4, width * columns), height * rows + 0.3)
    axes = figure.subplots(rows, columns, squeeze=False)
    for spare in axes.flat[n_panels:]:
        spare.set_visible(False)
    for panel in axes.flat:
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.25)
        panel.set_axisbelow(True)
    return figure, list(axes.flat[:n_panels])


def _grid(n_panels: int) -> tuple[int, int]:
    """Return rows and columns, at most four of them, with rows about equally long."""
    rows = -(-n_panels // 4)
    return rows, -(-n_panels // rows)


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))
    FigureCanvasAgg(figure)
    return figure


def _label_rows(panels: list[Axes], label: str) -> None:
    """Label the vertical axis of the first panel in each row."""
    for panel in panels:
        spec = panel.get_subplotspec()
        if spec is not None and spec.is_first_col():
            panel.set_ylabel(label)


def _tests(U: int) -> tuple[tuple[str, int, dict[str, Any]], ...]:
    """Return name, number of unknown classes and style of closed-set (CS) and open-set (OS) testing."""
    closed = ("CS", 0, {"linestyle": "--", "markerfacecolor": "white"})
    return (closed, ("OS", U, {"linestyle": "-"})) if U else (closed,)


def line_style(recognizer: str, recognizers: Sequence[str]) -> dict[str, Any]:
    """Return how to draw a recognizer: no two of 25 share color and dashes; more differ in markers."""
    if recognizer == "openworld":
        return {**_OURS, "markersize": 5}
    i = [name for name in recognizers if name != "openworld"].index(recognizer)
    dashes = _DASHES[i // len(_COLORS) % len(_DASHES)]
    looks = {"color": _COLORS[i % len(_COLORS)], "marker": _MARKERS[i % len(_MARKERS)], "linestyle": dashes}
    return {**looks, "linewidth": 1.4, "markersize": 5, "zorder": 2}


def _legend_below(figure: Figure, axes: Axes, columns: int) -> None:
    handles, labels = axes.get_legend_handles_labels()
    entry_width = 0.7 + 0.085 * max(map(len, labels))  # inches, at the default font size
    columns = max(1, min(columns, len(labels), int(figure.get_figwidth() / entry_width)))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    # Further legend rows must not shrink the panels.
    figure.set_figheight(figure.get_figheight() + 0.22 * (-(-len(labels) // columns) - 1))


def _curves(table: Table, data: str) -> Figure:
    unknown = table.unknown(data) or [0]
    figure, panels = _new(len(unknown))
    known = table.known(data)
    for panel, U in zip(panels, unknown, strict=True):
        for recognizer in table.recognizers:
            for prefix, count, line in _tests(U):
                cells = [100 * table.cell(data, recognizer, K, count, "pooled_accuracy") for K in known]
                mean, deviation = np.mean(cells, axis=1), np.std(cells, axis=1)
                style = line_style(recognizer, table.recognizers)
                panel.plot(known, mean, label=f"{prefix}-{recognizer}", **{**style, **line})
                panel.fill_between(
                    known, mean - deviation, mean + deviation, color=style["color"], alpha=0.15
                )
        panel.set_title(f"{U} unknown classes" if U else "closed set", fontsize=10)
        panel.set_xlabel("known classes")
        panel.set_xticks(known[:: -(-len(known) // 7)])
        panel.set_ylim(0, None)
    _label_rows(panels, "top-1 accuracy (%)")
    _legend_below(figure, panels[0], 4)
    return figure


def _surface(table: Table, data: str) -> Figure:
    rows, columns = _grid(len(table.recognizers))
    figure = _figure(max(5.0, 4.4 * columns), 3.9 * rows)
    known, unknown = table.known(data), [0, *table.unknown(data)]
    x, y = np.meshgrid(known, unknown)
    for i, recognizer in enumerate(table.recognizers):
        z = [
            [100 * table.cell(data, recognizer, K, U, "pooled_accuracy").mean() for K in known]
            for U in unknown
        ]
        axes: Any = figure.add_subplot(rows, columns, i + 1, projection="3d")
        axes.plot_surface(x, y, np.array(z), cmap="viridis", vmin=0, vmax=100, edgecolor="k", linewidth=0.3)
        axes.set(xlabel="known classes", ylabel="unknown classes", zlim=(0, 100))
        axes.set(xticks=known[:: -(-len(known) // 4)], yticks=unknown[:: -(-len(unknown) // 4)])
        axes.set_title(recognizer, fontsize=10, y=0.95)
        axes.set_zlabel("accuracy (%)")
        axes.view_init(25, -50)
        axes.set_box_aspect(None, zoom=0.85)
    return figure


def _oscr(table: Table, data: str, output: Path) -> Figure:
    figure, (panel,) = _new(1, 5.4, 4.0)
    rates = np.linspace(0, 1, 1001)
    for recognizer in table.recognizers:
        style = {**line_style(recognizer, table.recognizers), "marker": None}
        panel.plot(rates, _mean_oscr(read_scores(output, data, recognizer), rates), label=recognizer, **style)
    K, U = table.known(data)[-1], table.unknown(data)[-1]
    panel.set(xlabel="false positive rate (unknown accepted)", ylabel="correct classification rate")
    panel.set(xlim=(0, 1), ylim=(0, 1))
    panel.set_title(f"{K} known, {U} unknown classes", fontsize=10)
    _legend_below(figure, panel, 4)
    return figure


def _mean_oscr(orders: list[dict[str, Any]], rates: Any) -> Any:
    """Return the correct classification rate at some false positive rates, averaged over class orders."""
    curves = [oscr_curve(Scores.of(s["known"], s["unknown"], s["correct"])) for s in orders]
    return np.mean(
        [np.interp(rates, c.false_positive_rate, c.correct_classification_rate) for c in curves], axis=0
    )


def _histograms(table: Table, data: str, output: Path) -> Figure:
    figure, panels = _new(len(table.recognizers), 4.2)
    for panel, recognizer in zip(panels, table.recognizers, strict=True):
        scores = read_scores(output, data, recognizer)[0]
        pooled = np.concatenate([scores["known"], scores["unknown"]])
        low, high = np.quantile(pooled[np.isfinite(pooled)], [0.02, 1.0])
        bins = np.histogram_bin_edges(pooled, 60, (low, high)).tolist()
        for kind, color in (("known", _KNOWN), ("unknown", _UNKNOWN)):
            panel.hist(
                np.clip(scores[kind], low, high), bins, density=True, alpha=0.55, color=color, label=kind
            )
        if not table.never_rejects(data, recognizer):
            panel.axvline(0, color="k", linestyle="--", label="threshold")
        panel.set_title(recognizer, fontsize=10)
        panel.set_xlabel("score of the best class")
        panel.set_yticks([])
    _label_rows(panels, "density")
    longest = max(panels, key=lambda panel: len(panel.get_legend_handles_labels()[1]))
    _legend_below(figure, longest, 3)
    return figure


def _reliability(table: Table, data: str, output: Path) -> Figure | None:
    """Draw the reliability of every recognizer that has memberships, or nothing where none has."""
    found = {}
    for recognizer in table.recognizers:
        orders = read_scores(output, data, recognizer)
        if "known_membership" in orders[0]:
            found[recognizer] = [
                reliability(s["known_membership"], s["correct"], s["unknown_membership"]) for s in orders
            ]
    if not found:
        return None
    figure, panels = _new(len(found), 4.2, 4.0)
    for panel, (recognizer, curves) in zip(panels, found.items(), strict=True):
        panel.plot([0, 1], [0, 1], color="k", linestyle=":", label="as the membership says")
        for i, curve in enumerate(curves):
            name = None if i else f"each of {len(curves)} class orders"
            panel.plot(curve.membership, curve.right, color=_KNOWN, linewidth=0.8, alpha=0.4, label=name)
        mean = _mean_curve(curves)
        panel.plot(mean.membership, mean.right, color=_KNOWN, linewidth=2.5, label="mean over class orders")
        panel.scatter(mean.membership, mean.right, s=300 * mean.weight, color=_KNOWN, alpha=0.6)
        error = np.mean([curve.error for curve in curves])
        panel.set_title(f"{recognizer}: calibration error {error:.3f}", fontsize=10)
        panel.set(xlabel="membership of the best class", xlim=(0, 1), ylim=(0, 1))
    _label_rows(panels, "share of right answers")
    _legend_below(figure, panels[0], 3)
    return figure


def _mean_curve(curves: Sequence[Reliability]) -> Reliability:
    """Return the mean over class orders in each bin, weighted by their shares of the samples."""
    membership, right, weight = (np.concatenate(values) for values in zip(*curves, strict=True))
    bins = np.minimum((10 * membership).astype(np.intp), 9)
    total = np.bincount(bins, weight)
    used = total > 0
    mean, share = (np.bincount(bins, weight * values)[used] / total[used] for values in (membership, right))
    return Reliability(mean, share, total[used] / len(curves))


def _confusion(table: Table, data: str) -> Figure:
    figure, (known_panel, unknown_panel) = _new(2, 5.0, 1.5 + 0.35 * len(table.recognizers))
    K, U = table.known(data)[-1], table.unknown(data)[-1]
    for panel, title, parts in (
        (known_panel, f"samples of the {K} known classes", _known_parts(table, data, K, U)),
        (unknown_panel, f"samples of the {U} unknown classes", _unknown_parts(table, data, K, U)),
    ):
        left = np.zeros(len(table.recognizers))
        for label, color, widths in parts:
            panel.barh(table.recognizers, widths, left=left, color=color, label=label)
            left += widths
        panel.set(xlim=(0, 100), xlabel="share of samples (%)")
        panel.set_title(title, fontsize=10)
        panel.invert_yaxis()
        panel.legend(
            loc="upper center", bbox_to_anchor=(0.5, 0), borderaxespad=5, ncols=3, frameon=False, fontsize=8
        )
    return figure


def _mean(table: Table, data: str, K: int, U: int, measure: str) -> Any:
    return np.array([100 * table.cell(data, name, K, U, measure).mean() for name in table.recognizers])


def _known_parts(table: Table, data: str, K: int, U: int) -> list[tuple[str, str, Any]]:
    right, accepted = _mean(table, data, K, U, "closed_accuracy"), _mean(table, data, K, U, "known_recall")
    return [
        ("its class", "#009E73", right),
        ("another known class", "#D55E00", accepted - right),
        ("unknown", "#999999", 100 - accepted),
    ]


def _unknown_parts(table: Table, data: str, K: int, U: int) -> list[tuple[str, str, Any]]:
    rejected = _mean(table, data, K, U, "unknown_rejection")
    return [("unknown (right)", "#009E73", rejected), ("a known class", "#D55E00", 100 - rejected)]


def _tau_sweep(table: Table, data: str) -> Figure:
    known = table.known(data)
    figure, panels = _new(len(known), 3.4)
    U = table.unknown(data)[-1] if table.unknown(data) else 0
    for panel, K in zip(panels, known, strict=True):
        for recognizer in table.recognizers:
            style = line_style(recognizer, table.recognizers)
            for prefix, count, line in _tests(U):
                factors = [
                    f
                    for f in table.tau_factors
                    if table.has(data, recognizer, K, count, "pooled_accuracy", f)
                ]
                cells = [
                    100 * table.cell(data, recognizer, K, count, "pooled_accuracy", tau_factor=f)
                    for f in factors
                ]
                if len(factors) == 1:
                    value = float(np.mean(cells))
                    panel.axhline(
                        value,
                        linestyle=line["linestyle"],
                        color=style["color"],
                        label=f"{prefix}-{recognizer}",
                    )
                else:
                    mean = np.mean(cells, axis=1)
                    panel.plot(factors, mean, label=f"{prefix}-{recognizer}", **{**style, **line})
        panel.set_title(f"{K} known, {U} unknown classes", fontsize=10)
        panel.set_xlabel("tau / calibrated tau")
        panel.set_ylim(0, None)
    _label_rows(panels, "top-1 accuracy (%)")
    _legend_below(figure, panels[0], 4)
    return figure
