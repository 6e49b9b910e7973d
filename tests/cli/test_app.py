"""The command line: what it does, what it prints, and what it says when something is wrong."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

import openworld
from openworld.cli.app import app


@pytest.fixture
def blobs() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    y = np.repeat(["ant", "bee", "cat", "dog"], 20)
    centers = 10 * random.standard_normal((4, 3))
    return centers[np.unique(y, return_inverse=True)[1]] + random.standard_normal((80, 3)), y


@pytest.fixture
def table(tmp_path: Path, blobs: tuple[np.ndarray, np.ndarray]) -> Path:
    path = tmp_path / "animals.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["length", "label", "height", "weight"])
        for x, label in zip(*blobs, strict=True):
            writer.writerow([x[0], label, *x[1:]])
    return path


@pytest.fixture
def model(tmp_path: Path, table: Path, run: Any) -> Path:
    run("fit", table, "-o", tmp_path / "animals.ow", "--recognizer", "nno")
    return tmp_path / "animals.ow"


def test_fit_recognize_learn_inspect(run: Any, model: Path, table: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "new.npz", X=np.full((5, 3), 40.0) + np.arange(5)[:, None] / 10, y=["eel"] * 5)
    assert "unknown" in run("recognize", model, tmp_path / "new.npz")
    assert "5 of 5 answers are right" in run.err  # eel is not known yet: unknown is right
    run("learn", model, tmp_path / "new.npz")
    assert "1 new class" in run.err
    answers = list(csv.DictReader(run("recognize", model, tmp_path / "new.npz").splitlines()))
    assert [row["answer"] for row in answers] == ["eel"] * 5
    assert openworld.load(model).classes_.tolist() == ["ant", "bee", "cat", "dog", "eel"]
    shown = run("inspect", model, "--classes")
    assert "eel" in shown
    assert "NearestNonOutlier" in shown


def test_recognize_agrees_with_the_library(
    run: Any, model: Path, table: Path, tmp_path: Path, blobs: tuple[np.ndarray, np.ndarray]
) -> None:
    X, _ = blobs
    recognizer = openworld.load(model)
    run("recognize", model, table, "-o", tmp_path / "answers.json")
    rows = json.loads((tmp_path / "answers.json").read_text())
    assert [row["answer"] for row in rows] == recognizer.predict(X).tolist()
    labels, distances = recognizer.nearest_classes(X, 1)
    assert [row["nearest_class"] for row in rows] == labels[:, 0].tolist()
    assert np.allclose([row["distance"] for row in rows], distances[:, 0])


def test_json_for_programs(run: Any, table: Path, tmp_path: Path) -> None:
    summary = json.loads(run("fit", table, "-o", tmp_path / "m.ow", "--recognizer", "nno", "--json"))
    assert summary["classes"] == 4
    assert summary["tau"] > 0
    assert json.loads(run("inspect", tmp_path / "m.ow", "--json"))["samples"] == 80
    assert len(json.loads(run("inspect", tmp_path / "m.ow", "--json", "--classes"))["per_class"]) == 4
    assert len(json.loads(run("recognize", tmp_path / "m.ow", table, "--json"))) == 80
    assert json.loads(run("learn", tmp_path / "m.ow", table, "--json"))["new_classes"] == 0


@pytest.mark.parametrize("recognizer", ["nno", "ncm", "softmax-threshold"])
def test_each_recognizer_can_be_fitted(run: Any, table: Path, tmp_path: Path, recognizer: str) -> None:
    run("fit", table, "-o", tmp_path / "m.ow", "--recognizer", recognizer, "--components", 2)
    assert openworld.load(tmp_path / "m.ow").metric_.W_.shape == (3, 2)


def test_the_recommended_recognizer_is_the_default(run: Any, table: Path, tmp_path: Path) -> None:
    run("fit", table, "-o", tmp_path / "m.ow")
    assert type(openworld.load(tmp_path / "m.ow")) is openworld.OpenWorldRecognizer
    np.savez(tmp_path / "new.npz", X=np.full((5, 3), 400.0) + np.arange(5)[:, None], y=["eel"] * 5)
    answers = list(csv.DictReader(run("recognize", tmp_path / "m.ow", tmp_path / "new.npz").splitlines()))
    assert [row["answer"] for row in answers] == ["unknown"] * 5
    run("recognize", tmp_path / "m.ow", table)
    right = int(run.message.split("By their labels ")[1].split(" of")[0])
    assert right > 60
    run("learn", tmp_path / "m.ow", tmp_path / "new.npz")
    assert "OpenWorldRecognizer" in run("inspect", tmp_path / "m.ow")
    assert "eel" in openworld.load(tmp_path / "m.ow").classes_


def test_parquet_and_npz_give_the_same_model(
    run: Any, table: Path, tmp_path: Path, blobs: tuple[np.ndarray, np.ndarray]
) -> None:
    X, y = blobs
    columns = {"length": X[:, 0], "height": X[:, 1], "weight": X[:, 2], "kind": y}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    pq.write_table(pa.table({"features": X.tolist(), "kind": y}), tmp_path / "b.parquet")
    np.savez(tmp_path / "c.npz", X=X, kind=y)
    taus = []
    for name in ("a.parquet", "b.parquet", "c.npz"):
        run("fit", tmp_path / name, "-o", tmp_path / "m.ow", "--label-column", "kind", "--recognizer", "nno")
        taus.append(openworld.load(tmp_path / "m.ow").tau_)
    run("fit", table, "-o", tmp_path / "m.ow", "--recognizer", "nno")
    assert taus == [pytest.approx(openworld.load(tmp_path / "m.ow").tau_)] * 3


def test_errors_are_one_line_and_say_what_to_do(run: Any, model: Path, table: Path, tmp_path: Path) -> None:
    (tmp_path / "text.csv").write_text("a,label\n1,x\nfour,y\n")
    (tmp_path / "nan.csv").write_text("a,b,label\n1,2,x\nnan,3,y\n")
    (tmp_path / "infinite.csv").write_text("a,b,label\n1,2,x\ninf,3,y\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("a,label\n")
    (tmp_path / "unlabeled.csv").write_text("a,b\n1,2\n")
    (tmp_path / "short.csv").write_text("a,b,label\n1,2,x\n1,y\n")
    (tmp_path / "wide.csv").write_text("a,b,label\n1,2,ant\n")
    (tmp_path / "broken.npz").write_bytes(b"PK not an archive")
    np.savez(tmp_path / "narrow.npz", X=np.ones((2, 2)))
    np.savez(tmp_path / "other.npz", features=np.ones((2, 2)))
    cut = tmp_path / "cut.ow"
    cut.write_bytes(model.read_bytes()[:-100])
    new = tmp_path / "new.ow"
    for arguments, words in [
        (("fit", tmp_path / "missing.csv", "-o", new), "no such file or folder. Check its name."),
        (("fit", tmp_path / "animal.csv", "-o", new), "Did you mean"),
        (("fit", model, "-o", new), "is a model file, but data is needed"),
        (("fit", tmp_path / "infinite.csv", "-o", new), "inf is not a finite number. Correct or remove it."),
        (("fit", tmp_path / "text.csv", "-o", new), "four"),
        (("fit", tmp_path / "nan.csv", "-o", new), 'line 3, column "a": the value is missing'),
        (("fit", tmp_path / "empty.csv", "-o", new), "It is empty"),
        (("fit", tmp_path / "header.csv", "-o", new), "no samples"),
        (("fit", tmp_path / "unlabeled.csv", "-o", new), "--label-column"),
        (("fit", tmp_path / "short.csv", "-o", new), "short.csv"),
        (("fit", tmp_path / "broken.npz", "-o", new), "not a valid .npz"),
        (("fit", tmp_path / "other.npz", "-o", new), "no array named 'X'"),
        (("fit", table, "-o", tmp_path / "nowhere" / "m.ow"), "does not exist"),
        (("fit", table, "-o", new, "--label-column", "color"), 'no column named "color"'),
        (
            ("fit", table, "-o", new, "--recognizer", "nno", "--tau", "-1"),
            "'tau' parameter of NearestNonOutlier must be",
        ),
        (("fit", table, "-o", new, "--tau", "1"), "no meaning for openworld"),
        (("fit", table, "-o", new, "--components", "2"), "no meaning for openworld"),
        (("fit", table, "-o", new, "--recognizer", "nno", "--components", "99"), "number of features"),
        (("fit", "photos", "-o", new), "no such file or folder"),
        (("recognize", cut, table), "damaged"),
        (("recognize", table, table), "not an openworld model"),
        (("recognize", model, tmp_path / "wide.csv"), 'no columns named "length", "height", "weight"'),
        (("recognize", model, table, "-o", tmp_path / "answers.xlsx"), ".csv, .json, .jsonl, .parquet"),
        (("learn", model, tmp_path / "wide.csv"), "Its columns are: a, b, label."),
        (
            ("recognize", model, tmp_path / "narrow.npz"),
            "has 2 features per sample, but the model was fitted on 3",
        ),
        (("inspect", tmp_path / "missing.ow"), "there is no such model file"),
        (("card", model, "-o", tmp_path / "nowhere" / "card.md"), "does not exist. Create it first."),
    ]:
        before = model.read_bytes()
        assert run(*arguments, code=1) == ""
        assert run.err.startswith("Error: ")
        assert words in run.err, (arguments, run.err)
        assert "Traceback" not in run.err
        assert model.read_bytes() == before
        assert not new.exists()


def test_a_typo_is_a_usage_error(run: Any) -> None:
    run("recognize", code=2)
    assert "recognize" in run.err


def test_help_teaches_without_importing_scikit_learn() -> None:
    code = (
        "import sys; sys.argv = ['openworld', '--help']\n"
        "from openworld.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert 'sklearn' not in sys.modules and 'numpy' not in sys.modules, 'heavy import'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "recognize" in done.stdout


def test_version(run: Any) -> None:
    assert run("--version").strip() == f"openworld {openworld.__version__}"


def test_every_command_has_json() -> None:
    group = typer.main.get_command(app)
    commands = dict(group.commands)
    keys = commands.pop("key")
    commands |= {f"key {name}": command for name, command in keys.commands.items()}
    assert len(commands) >= 13
    without = [
        name
        for name, command in commands.items()
        if not any("--json" in option.opts for option in command.params)
    ]
    assert not without


def test_a_warning_is_one_line_without_a_place_in_the_source(tmp_path: Path) -> None:
    np.savez(tmp_path / "few.npz", X=np.eye(3), y=["a", "b", "c"])
    command = [sys.executable, "-m", "openworld", "fit", "few.npz", "-o", "few.ow", "--no-check"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    warned = [line for line in done.stderr.splitlines() if "Too little to calibrate" in line]
    assert [line.startswith("Warning: ") for line in warned] == [True]
    assert ".py" not in done.stderr
