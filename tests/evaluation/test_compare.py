"""Comparing two runs, as a library and on the command line."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openworld.cli import main
from openworld.evaluation.compare import COMPARED, compare
from openworld.evaluation.run import RESULT_COLUMNS

Values = dict[tuple[str, int, int, str], list[float]]
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a results.csv with the values of each class order of (recognizer, K, U, measure)."""

    def write_results(name: str, values: Values, data: str = "toy.npz", factor: float = 1.0) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        with (folder / "results.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(RESULT_COLUMNS)
            for (recognizer, K, U, measure), orders in values.items():
                for order, value in enumerate(orders):
                    table.writerow([data, recognizer, order, K, U, factor, measure, value])
        return folder

    return write_results


CELL = ("NNO", 10, 5, "pooled_accuracy")


def test_differences_are_second_minus_first_and_paired(write: Write) -> None:
    first = write("a", {CELL: [0.1, 0.9, 0.5], ("NNO", 10, 5, "auroc"): [0.5, 0.6, 0.7]})
    second = write("b", {CELL: [0.12, 0.93, 0.51], ("NNO", 10, 5, "auroc"): [0.7, 0.5, 0.6]})
    accuracy, area = compare(first, second)
    assert (accuracy.data, accuracy.recognizer, accuracy.K, accuracy.U) == ("toy.npz", "NNO", 10, 5)
    assert (accuracy.first, accuracy.second) == pytest.approx((0.5, 0.52))
    assert accuracy.interval is not None
    half = 4.302653 * 0.01 / np.sqrt(3)
    assert accuracy.interval == pytest.approx((0.02, 0.02 - half, 0.02 + half))
    assert not accuracy.significant
    assert not area.significant
    assert area.interval is not None
    assert area.interval.low < 0 < area.interval.high
    back, _ = compare(second, first)
    assert back.interval is not None
    assert back.interval.estimate == pytest.approx(-0.02)


def test_significance(write: Write) -> None:
    """The orders differ by much more than the runs do; only pairing finds it."""
    first = write("a", {CELL: [0.1, 0.9, 0.5]})
    (found,) = compare(first, write("b", {CELL: [0.13, 0.931, 0.529]}))
    assert found.significant
    (found,) = compare(first, write("c", {CELL: [0.07, 0.869, 0.471]}))
    assert found.significant
    (found,) = compare(first, first)
    assert not found.significant
    assert found.interval == (0, 0, 0)


def test_a_single_class_order_has_no_interval(write: Write) -> None:
    (found,) = compare(write("a", {CELL: [0.1]}), write("b", {CELL: [0.9]}))
    assert found.interval is None
    assert not found.significant
    assert found.second - found.first == pytest.approx(0.8)


def test_only_cells_that_both_have_are_compared(write: Write) -> None:
    values: Values = {
        (name, K, 5, "pooled_accuracy"): [0.1, 0.2] for name in ("NCM", "NNO") for K in (10, 20)
    }
    first = write(
        "a", {**values, ("NNO", 30, 5, "pooled_accuracy"): [0.3, 0.4], ("NNO", 10, 5, "f1_macro"): [1, 1]}
    )
    second = write("b", {key: value for key, value in values.items() if key[0] == "NNO"})
    assert [(d.recognizer, d.K, d.measure) for d in compare(first, second)] == [
        ("NNO", 10, "pooled_accuracy"),
        ("NNO", 20, "pooled_accuracy"),
    ]
    assert COMPARED == ("pooled_accuracy", "open_world_error", "auroc", "oscr_area")


def test_the_measures_can_be_chosen(write: Write) -> None:
    values: Values = {("NNO", 10, 5, measure): [0.1, 0.2] for measure in ("auroc", "f1_macro")}
    folder = write("a", values)
    assert [d.measure for d in compare(folder, folder)] == ["auroc"]
    assert [d.measure for d in compare(folder, folder, ("f1_macro",))] == ["f1_macro"]


def test_runs_that_cannot_be_compared(write: Write, tmp_path: Path) -> None:
    first = write("a", {CELL: [0.1, 0.2]})
    for other in (
        write("b", {("NCM", 10, 5, "pooled_accuracy"): [0.1, 0.2]}),
        write("c", {CELL: [0.1, 0.2]}, data="other.npz"),
        write("d", {CELL: [0.1, 0.2]}, factor=2.0),
    ):
        with pytest.raises(ValueError, match="have no data set, recognizer, K, U and measure in common"):
            compare(first, other)
    with pytest.raises(ValueError, match=r"measure in common"):
        compare(first, first, ("acuracy",))
    with pytest.raises(ValueError, match=r"2 class orders and .* has 3: paired differences need the same"):
        compare(first, write("e", {CELL: [0.1, 0.2, 0.3]}))
    with pytest.raises(FileNotFoundError, match=r"no results\.csv"):
        compare(first, tmp_path / "nothing")


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run `openworld compare`; return exit code, output and messages."""

    def run(*arguments: object) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["openworld", "compare", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "80")
        try:
            main()
        except SystemExit as stop:
            return (stop.code or 0, *capsys.readouterr())
        raise AssertionError("a command ends with an exit code")

    return run


def test_command(write: Write, command: Callable[..., Any]) -> None:
    odd = "dir/[bold]my data.npz"
    values: Values = {CELL: [0.1, 0.9, 0.5], ("NNO", 10, 5, "auroc"): [0.5, 0.5, 0.5]}
    first = write("a", values, data=odd)
    second = write("b", {**values, CELL: [0.13, 0.931, 0.529]}, data=odd)
    code, shown, messages = command(first, second)
    assert code == 0
    assert "1 of 2 differences are significant" in " ".join(messages.split())
    assert shown.splitlines()[0] == "[bold]my data, NNO"
    line = next(line for line in shown.splitlines() if "pooled_accuracy" in line)
    for words in ("0.5000", "0.5300", "+0.0300", "+0.0275 to +0.0325 *"):
        assert words in line
    assert "*" not in next(line for line in shown.splitlines() if "auroc" in line)
    assert max(map(len, shown.splitlines())) < 80


def test_command_json(write: Write, command: Callable[..., Any]) -> None:
    first, second = write("a", {CELL: [0.1, 0.9]}), write("b", {CELL: [0.2, 1.0]})
    code, shown, _ = command(first, second, "--json")
    assert code == 0
    (found,) = json.loads(shown)
    assert found["interval"] == pytest.approx([0.1, 0.1, 0.1])
    assert found["significant"] is True
    assert {key: found[key] for key in ("data", "recognizer", "K", "U", "measure")} == {
        "data": "toy.npz", "recognizer": "NNO", "K": 10, "U": 5, "measure": "pooled_accuracy"
    }  # fmt: skip
    single = write("c", {CELL: [0.1]})
    (found,) = json.loads(command(single, single, "--json")[1])
    assert found["interval"] is None
    assert found["significant"] is False


def test_command_measure(write: Write, command: Callable[..., Any]) -> None:
    values: Values = {("NNO", 10, 5, measure): [0.1, 0.2] for measure in ("auroc", "f1_macro", "aupr")}
    folder = write("a", values)
    found = json.loads(command(folder, folder, "--measure", "f1_macro", "--measure", "aupr", "--json")[1])
    assert sorted(row["measure"] for row in found) == ["aupr", "f1_macro"]


def test_command_errors(write: Write, command: Callable[..., Any], tmp_path: Path) -> None:
    first = write("a", {CELL: [0.1, 0.2]})
    for other, words in (
        (tmp_path / "nothing", "no results.csv in this folder"),
        (write("b", {CELL: [0.1]}), "paired differences need the same"),
    ):
        code, shown, messages = command(first, other)
        assert code == 1
        assert shown == ""
        assert messages.startswith("Error: ")
        assert messages.count("\n") == 1
        assert words in messages
