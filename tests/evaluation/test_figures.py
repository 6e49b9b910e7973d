"""The figures: which there are, that nothing is cut off, and that they show what was measured."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from openworld import EuclideanMetric, NearestClassMean, NearestNonOutlier, OpenWorldRecognizer
from openworld.evaluation import figures
from openworld.evaluation.experiment import Experiment
from openworld.evaluation.figures import draw_all
from openworld.evaluation.recognizers import RECOGNIZERS
from openworld.evaluation.reliability import Reliability
from openworld.evaluation.run import read_results, read_scores, run_experiment
from openworld.evaluation.table import Table

EVERY = ["curves", "surface", "oscr", "scores", "confusion", "tau"]


@pytest.fixture(autouse=True)
def _six_recognizers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NCM", "A long name, 20 wide", "<b>odd</b> & $name"):
        monkeypatch.setitem(RECOGNIZERS, name, lambda: NearestClassMean(EuclideanMetric()))
    for name in ("NNO", "NCM-STH", "Fourth"):
        monkeypatch.setitem(RECOGNIZERS, name, lambda: NearestNonOutlier(EuclideanMetric()))


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(24), 12)
    centers = np.repeat(1.5 * random.standard_normal((24, 6)), 12, axis=0)
    np.savez(tmp_path / "blobs.npz", X=centers + random.standard_normal(centers.shape), y=y)
    return Experiment(
        "toy", (str(tmp_path / "blobs.npz"),), ("NCM", "NNO"), 4, 4, 12, unknown=(3, 6, 12), orders=2
    )


def table_of(experiment: Experiment, output: Path) -> Table:
    run_experiment(experiment, output, workers=0)
    return Table.of(read_results(output))


def names(drawn: list[tuple[Path, str]]) -> list[str]:
    return [path.name.split("-")[0] for path, _ in drawn]


def test_every_figure_of_a_run_with_everything(experiment: Experiment, tmp_path: Path) -> None:
    table = table_of(replace(experiment, tau_factors=(0.5, 0.8, 1.0, 2.0)), tmp_path / "out")
    drawn = draw_all(table, tmp_path / "out")
    assert names(drawn) == EVERY
    for path, caption in drawn:
        assert path.parent == tmp_path / "out" / "figures"
        assert path.read_bytes().startswith(b"\x89PNG")
        assert "<svg" in path.with_suffix(".svg").read_text()
        assert caption.startswith("blobs: ")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ["curves", "surface", "oscr", "scores", "confusion"]),
        ({"orders": 1}, ["curves", "surface", "oscr", "scores", "confusion"]),
        ({"n_starting": 12}, ["curves", "oscr", "scores", "confusion"]),
        ({"unknown": ()}, ["curves"]),
        ({"unknown": (), "tau_factors": (1.0, 2.0)}, ["curves", "tau"]),
        ({"n_starting": 12, "orders": 1, "unknown": (2,), "recognizers": ("NNO",)},
         ["curves", "oscr", "scores", "confusion"]),
    ],
)  # fmt: skip
def test_only_what_there_are_data_for(
    experiment: Experiment, tmp_path: Path, change: dict[str, Any], expected: list[str]
) -> None:
    table = table_of(replace(experiment, **change), tmp_path / "out")
    drawn = list(figures._figures(table, table.data[0], tmp_path / "out"))
    assert [name for name, _, _ in drawn] == expected
    for _, _, figure in drawn:
        figure.canvas.draw()


def test_data_sets_of_one_name_have_figures_of_their_own(experiment: Experiment, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "blobs.npz"
    with np.load(experiment.data[0]) as file:
        np.savez(other, X=file["X"] + np.random.default_rng(9).standard_normal(file["X"].shape), y=file["y"])
    both = replace(experiment, data=(*experiment.data, str(other)), unknown=())
    drawn = draw_all(table_of(both, tmp_path / "out"), tmp_path / "out")
    assert len({path for path, _ in drawn}) == len(drawn) == 2
    assert drawn[0][0].read_bytes() != drawn[1][0].read_bytes()


def problems(figure: Figure) -> list[str]:
    """Return what lies outside the figure, and tick labels that overlap."""
    canvas: Any = figure.canvas
    canvas.draw()
    renderer = canvas.get_renderer()
    parts: list[Any] = [*figure.legends, *(axes for axes in figure.axes if axes.get_visible())]
    found = []
    for part in parts:
        box = part.get_tightbbox(renderer)
        if box.x0 < 0 or box.y0 < 0 or box.x1 > figure.bbox.width or box.y1 > figure.bbox.height:
            found.append(f"{part} is cut off")
        if getattr(part, "name", "") == "rectilinear":
            boxes = [tick.label1.get_window_extent(renderer) for tick in part.xaxis._update_ticks()]
            found += [f"{part} has crowded ticks" for a, b in pairwise(boxes) if a.x1 > b.x0]
    return found


@pytest.mark.parametrize(
    ("n_recognizers", "unknown"),
    [(1, (3,)), (2, (2, 6, 12)), (3, (3, 6)), (6, (3,)), (6, (1, 3, 6, 9, 12))],
)
def test_nothing_is_cut_off(
    experiment: Experiment, tmp_path: Path, n_recognizers: int, unknown: tuple[int, ...]
) -> None:
    everyone = ("NCM", "NNO", "A long name, 20 wide", "NCM-STH", "Fourth", "<b>odd</b> & $name")
    # With one number of unknown classes there are many stages, with five of them there are two.
    table = table_of(
        replace(
            experiment, recognizers=everyone[:n_recognizers], unknown=unknown, orders=1,
            step=1 if len(unknown) == 1 else 8, tau_factors=(0.5, 1.0, 1.5) if len(unknown) > 1 else (1.0,),
        ),
        tmp_path / "out",
    )  # fmt: skip
    for name, _, figure in figures._figures(table, table.data[0], tmp_path / "out"):
        assert problems(figure) == [], name


def test_ticks_of_many_stages_are_not_crowded(experiment: Experiment, tmp_path: Path) -> None:
    run_experiment(replace(experiment, step=1, orders=1), tmp_path / "out", workers=0)
    rows = [{**row, "K": 123 * row["K"]} for row in read_results(tmp_path / "out")]
    assert problems(figure_of("curves", Table.of(rows), tmp_path / "out")) == []


@pytest.mark.parametrize(
    ("n_panels", "expected"),
    [(1, (1, 1)), (2, (1, 2)), (3, (1, 3)), (4, (1, 4)), (5, (2, 3)), (6, (2, 3)), (8, (2, 4)), (9, (3, 3))],
)
def test_panels_stand_in_rows_of_about_equal_length(n_panels: int, expected: tuple[int, int]) -> None:
    assert figures._grid(n_panels) == expected


def figure_of(name: str, table: Table, output: Path) -> Figure:
    drawn = figures._figures(table, table.data[0], output)
    return next(figure for kind, _, figure in drawn if kind == name)


def test_the_curves_are_the_means_of_the_table(experiment: Experiment, tmp_path: Path) -> None:
    table = table_of(experiment, tmp_path / "out")
    data = table.data[0]
    for panel, U in zip(figure_of("curves", table, tmp_path / "out").axes, (3, 6, 12), strict=True):
        lines = {str(line.get_label()): line for line in panel.get_lines()}
        assert set(lines) == {"CS-NCM", "OS-NCM", "CS-NNO", "OS-NNO"}
        for label, line in lines.items():
            prefix, recognizer = label.split("-")
            count = 0 if prefix == "CS" else U
            expected = [
                100 * table.cell(data, recognizer, K, count, "pooled_accuracy").mean() for K in (4, 8, 12)
            ]
            assert list(line.get_xdata()) == [4, 8, 12]
            assert list(line.get_ydata()) == pytest.approx(expected)


def test_without_unknown_classes_there_is_no_open_set_curve(experiment: Experiment, tmp_path: Path) -> None:
    table = table_of(replace(experiment, unknown=(), tau_factors=(1.0, 2.0)), tmp_path / "out")
    for name in ("curves", "tau"):
        for panel in figure_of(name, table, tmp_path / "out").axes:
            assert {str(line.get_label()) for line in panel.get_lines()} == {"CS-NCM", "CS-NNO"}


def test_class_orders_with_different_scales_are_not_pooled(experiment: Experiment, tmp_path: Path) -> None:
    """The area under the curve drawn is the mean of the table's areas, however the scores are scaled."""
    output = tmp_path / "out"
    table = table_of(experiment, output)
    data = table.data[0]
    for order, path in enumerate(sorted((output / "parts").glob("*-NCM-*.npz"))):
        with np.load(path) as file:
            scores = dict(file)
        scale = 1000.0**order  # a metric learned on other classes has another scale
        np.savez(
            path, known=scale * scores["known"], unknown=scale * scores["unknown"], correct=scores["correct"]
        )
    (panel,) = figure_of("oscr", table, output).axes
    for line in panel.get_lines():
        x, y = np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)
        area = table.cell(data, str(line.get_label()), 12, 12, "oscr_area").mean()
        assert np.trapezoid(y, x) == pytest.approx(area, abs=2e-3)
        assert y[-1] == pytest.approx(
            table.cell(data, str(line.get_label()), 12, 0, "forced_accuracy").mean()
        )


def test_the_histograms_are_of_the_first_class_order(experiment: Experiment, tmp_path: Path) -> None:
    output = tmp_path / "out"
    table = table_of(experiment, output)
    for path in (output / "parts").glob("*-1-*.npz"):
        np.savez(path, known=np.full(5, 1e6), unknown=np.full(7, -1e6), correct=np.ones(5, dtype=bool))
    for panel in figure_of("scores", table, output).axes:
        assert np.abs(panel.get_xlim()).max() < 1e3


def test_a_threshold_is_drawn_for_those_that_have_one(experiment: Experiment, tmp_path: Path) -> None:
    table = table_of(experiment, tmp_path / "out")
    ncm, nno = figure_of("scores", table, tmp_path / "out").axes
    assert [line.get_xdata() for line in ncm.get_lines()] == []
    assert [list(line.get_xdata()) for line in nno.get_lines()] == [[0, 0]]


def test_all_scores_alike(experiment: Experiment, tmp_path: Path) -> None:
    output = tmp_path / "out"
    table = table_of(experiment, output)
    for path in (output / "parts").glob("*.npz"):
        known, unknown = np.full(5, 0.25), np.full(7, 0.25)
        np.savez(path, known=known, unknown=unknown, correct=np.ones(5, dtype=bool))
    for name in ("oscr", "scores"):
        figure_of(name, table, output).canvas.draw()
    assert read_scores(output, table.data[0], "NNO")[0]["known"].tolist() == [0.25] * 5


def test_every_recognizer_has_a_look_of_its_own_and_ours_is_on_top() -> None:
    every = ["NCM", *(f"my:{i}" for i in range(2)), *sorted(set(RECOGNIZERS) - {"NCM"})][:25]
    looks = {name: figures.line_style(name, every) for name in every}
    assert len({(look["color"], look["linestyle"]) for look in looks.values()}) == len(every) == 25
    ours, others = looks.pop("openworld"), looks.values()
    assert ours["color"] not in {look["color"] for look in others}
    assert ours["zorder"] > max(look["zorder"] for look in others)
    assert figures.line_style("openworld", ["openworld"]) == ours


def test_the_mean_of_reliability_curves_is_that_of_each_bin() -> None:
    one = Reliability(np.array([0.15, 0.95]), np.array([0.2, 1.0]), np.array([0.25, 0.75]))
    other = Reliability(np.array([0.55, 1.0]), np.array([0.5, 0.8]), np.array([0.75, 0.25]))
    mean = figures._mean_curve([one, other])
    np.testing.assert_allclose(mean.membership, [0.15, 0.55, 0.9625])
    np.testing.assert_allclose(mean.right, [0.2, 0.5, 0.95])
    np.testing.assert_allclose(mean.weight, [0.125, 0.375, 0.5])


def test_class_orders_of_a_reliability_curve_are_labeled(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RECOGNIZERS, "openworld", OpenWorldRecognizer)
    table = table_of(replace(experiment, recognizers=("openworld",)), tmp_path / "out")
    drawn = figures._reliability(table, table.data[0], tmp_path / "out")
    assert drawn is not None
    lines = drawn.axes[0].get_lines()
    assert len(lines) == 4  # diagonal, two class orders, mean
    assert max(line.get_linewidth() for line in lines) == lines[-1].get_linewidth()
    (legend,) = drawn.legends
    words = [text.get_text() for text in legend.get_texts()]
    assert words == ["as the membership says", "each of 2 class orders", "mean over class orders"]


def test_the_shares_of_the_confusion_add_up(experiment: Experiment, tmp_path: Path) -> None:
    table = table_of(experiment, tmp_path / "out")
    data = table.data[0]
    known, unknown = figure_of("confusion", table, tmp_path / "out").axes
    for panel, n_parts in ((known, 3), (unknown, 2)):
        widths: Any = [[bar.get_width() for bar in bars] for bars in panel.containers]  # type: ignore[attr-defined]
        assert len(widths) == n_parts
        assert np.sum(widths, axis=0) == pytest.approx([100, 100])
        assert np.min(widths) >= -1e-9
    right = [100 * table.cell(data, name, 12, 12, "closed_accuracy").mean() for name in ("NCM", "NNO")]
    assert [bar.get_width() for bar in known.containers[0]] == pytest.approx(right)  # type: ignore[attr-defined]
