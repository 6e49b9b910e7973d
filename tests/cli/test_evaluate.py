"""`openworld evaluate`, from the arguments to the files."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from openworld.cli import console, main
from openworld.evaluation.experiment import EXPERIMENTS
from openworld.evaluation.pool_experiments import POOL_EXPERIMENTS
from openworld.evaluation.run import read_facts, read_results

Command = Callable[..., tuple[object, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: object) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["openworld", *map(str, arguments)])
        try:
            main()
        except SystemExit as stop:
            return (stop.code or 0, *capsys.readouterr())
        raise AssertionError("a command ends with an exit code")

    return run


@pytest.fixture
def data(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    centers = np.repeat(2 * random.standard_normal((12, 5)), 12, axis=0)
    y = np.repeat([f"c{i}" for i in range(12)], 12)
    path = tmp_path / "my [red]data.npz"
    np.savez(path, X=centers + random.standard_normal(centers.shape), y=y)
    return path


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(
        'n_starting = 3\nstep = 3\nn_known = 6\nunknown = [4]\norders = 2\ndata = "missing.npz"\n'
    )
    return path


def test_a_file_and_changes_to_it(command: Command, data: Path, toml: Path, tmp_path: Path) -> None:
    output = tmp_path / "my [bold]report"
    arguments = ("evaluate", toml, "--data", data, "-o", output, "--workers", 0)
    code, shown, messages = command(*arguments, "--recognizer", "NNO", "--recognizer", "NCM", "--seed", 5)
    assert code == 0, messages
    assert shown == ""
    assert {path.name for path in output.iterdir()} == {
        "results.csv", "timings.csv", "run.json", "report.html", "figures", "parts"
    }  # fmt: skip
    asked = read_facts(output)["experiment"]
    assert asked["name"] == "mine"
    assert asked["data"] == [str(data)]
    assert asked["recognizers"] == ["NNO", "NCM"]
    assert (asked["orders"], asked["seed"], asked["n_known"]) == (2, 5, 6)
    messages = " ".join(messages.split())
    assert "NCM, which never answers unknown, collapses" in messages
    assert "my [red]data" in messages, "what looks like markup in a name is shown as it is"
    assert "MiB peak memory. Wrote" in messages
    rows = read_results(output)
    (last,) = (row for row in _means(rows) if row["recognizer"] == "NNO")
    for part in ("recognizer K U accuracy", f"NNO 6 4 {last['pooled_accuracy']:.3f}"):
        assert part in messages
    code, shown, _ = command(*arguments, "--recognizer", "NNO", "--recognizer", "NCM", "--seed", 5, "--json")
    assert code == 0
    found = json.loads(shown)["means"]
    assert found == _means(rows)
    assert re.sub(r"\s", "", str(output / "report.html")) in re.sub(r"\s", "", messages)


def _means(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the means at the last stage, by other means."""
    found = []
    for name in dict.fromkeys(row["recognizer"] for row in rows):
        last = [row for row in rows if (row["recognizer"], row["K"], row["U"]) == (name, 6, 4)]
        line = {"data": rows[0]["data"], "recognizer": name, "K": 6, "U": 4}
        for measure in ("pooled_accuracy", "open_world_error", "auroc", "oscr_area"):
            line[measure] = float(np.mean([row["value"] for row in last if row["measure"] == measure]))
        found.append(line)
    return found


def test_a_named_experiment_is_scaled_down_and_says_so(command: Command, data: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    code, _, messages = command(
        "evaluate", "paper-50", "--data", data, "--recognizer", "NCM", "--orders", 1, "-o", output,
        "--workers", 0,
    )  # fmt: skip
    assert code == 0, messages
    assert "scaled down to 2 starting, 3 known and 1, 3, 8 unknown classes" in " ".join(messages.split())
    assert "n_starting = 3, step = 2, n_known = 7, unknown = [4]" in " ".join(messages.split()), (
        "and what to do"
    )
    assert {row["order"] for row in read_results(output)} == {0}
    assert {row["K"] for row in read_results(output)} == {2, 3}


def test_your_own_recognizer_in_the_current_folder(
    command: Command, data: Path, toml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_own.py").write_text(
        "from openworld import NearestNonOutlier\nclass Mine(NearestNonOutlier): pass\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    arguments = ("evaluate", toml, "--data", data, "-o", tmp_path / "out", "--orders", 1, "--workers", 1)
    code, _, messages = command(*arguments, "--recognizer", "my_own:Mine", "--recognizer", "NNO")
    assert code == 0, messages
    rows = read_results(tmp_path / "out")
    values = [
        [(row["K"], row["U"], row["measure"], row["value"]) for row in rows if row["recognizer"] == name]
        for name in ("my_own:Mine", "NNO")
    ]
    assert values[0] == values[1], "a worker process finds it too, and it is NNO"


@pytest.fixture
def species(tmp_path: Path, data: Path) -> Path:
    """A table whose labels are in a column of another name."""
    with np.load(data) as file:
        frame = pd.DataFrame(file["X"], columns=list("pqrst")).assign(species=file["y"])
    frame.to_csv(tmp_path / "species.csv", index=False)
    return tmp_path / "species.csv"


@pytest.mark.parametrize("workers", [0, 1])
def test_the_column_of_the_labels(
    command: Command, species: Path, toml: Path, tmp_path: Path, workers: int
) -> None:
    arguments = ("--data", species, "-o", tmp_path / "out", "--orders", 1, "--workers", workers)
    code, _, messages = command("evaluate", toml, *arguments, "--recognizer", "NCM")
    assert code == 1
    assert "use --label-column species" in messages
    code, _, messages = command(
        "evaluate", toml, *arguments, "--recognizer", "NCM", "--label-column", "species"
    )
    assert code == 0, messages
    assert {row["K"] for row in read_results(tmp_path / "out")} == {3, 6}


def test_the_column_of_the_labels_for_few_shot(command: Command, species: Path, tmp_path: Path) -> None:
    arguments = ("--data", species, "-o", tmp_path / "out", "--orders", 1, "--label-column", "species")
    code, _, messages = command("evaluate", "few-shot", *arguments, "--recognizer", "NCM")
    assert code == 0, messages


def test_in_a_terminal(
    command: Command, data: Path, toml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The progress bar is drawn only there."""
    terminal = Console(stderr=True, force_terminal=True, force_interactive=True)
    monkeypatch.setattr(console, "messages", terminal)
    code, _, messages = command(
        "evaluate", toml, "--data", data, "--recognizer", "NCM", "-o", tmp_path / "out", "--workers", 0
    )
    assert code == 0, messages
    assert "Drawing" in messages


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("papre-50",), "There is no experiment 'papre-50'; there are paper-50, paper-200"),
        (("missing.toml",), "leaderboard, discovery, loop, few-shot; or give a .toml file"),
        (("TOML",), "missing.npz: there is no such file or folder, and no built-in data set"),
        (("TOML", "--data", "DATA", "--recognizer", "NNN"), "no recognizer 'NNN'; there are openworld, NCM"),
        (("TOML", "--data", "DATA", "--orders", 0), "orders must be at least 1"),
        (("TOML", "--data", "DATA", "--seed", -1), "seed must not be negative"),
        (("TOML", "--data", "TOML"), "cannot read .toml"),
        (("TOML", "--data", "DATA", "-o", "DATA"), "data"),
    ],
)
def test_errors_are_one_line(
    command: Command, data: Path, toml: Path, tmp_path: Path, change: tuple[Any, ...], words: str
) -> None:
    places = {"TOML": toml, "DATA": data}
    arguments = [places.get(argument, argument) for argument in change]
    code, shown, messages = command("evaluate", "-o", tmp_path / "out", "--workers", 0, *arguments)
    assert code == 1
    assert shown == ""
    assert messages.startswith("Error: ")
    assert messages.count("\n") == 1
    assert words in messages


def test_the_help_explains_every_experiment_and_its_defaults(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    code, shown, _ = command("evaluate", "--help")
    assert code == 0
    for name in (*EXPERIMENTS, *POOL_EXPERIMENTS):
        assert re.search(rf"(?m)^ *{name}: \w.*\.", shown), name
    defaults = {name: (one.orders, one.seed) for name, one in EXPERIMENTS.items()}
    defaults |= {name: (one.kind.orders, one.kind.seed) for name, one in POOL_EXPERIMENTS.items()}
    changed = {"leaderboard": (3, 0), "few-shot": (3, 0), "discovery": (3, 31), "loop": (2, 31)}
    assert defaults == {name: changed.get(name, (5, 0)) for name in defaults}
    assert "Default: 5; leaderboard, few-shot and discovery 3; loop 2." in shown
    assert "Default: 0; discovery and loop 31." in shown


def test_nothing_is_written_for_a_typo(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command("evaluate", "paper-500")
    assert list(tmp_path.iterdir()) == []
