"""`openworld recognize` and `learn` on tables: columns by name, ids, forms of answers, standard input."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import openworld
from openworld.cli.answer_files import AnswerFile, Tally

FAST = ("--recognizer", "nno", "--components", 2, "--no-check")


@pytest.fixture
def table() -> pd.DataFrame:
    random = np.random.default_rng(0)
    label = np.repeat(["ant", "bee", "cat", "dog"], 15)
    centers = np.repeat(10 * random.standard_normal((4, 3)), 15, axis=0)
    frame = pd.DataFrame(centers + random.standard_normal((60, 3)), columns=["a", "b", "c"])
    return frame.assign(label=label)


@pytest.fixture
def model(run: Any, table: pd.DataFrame, tmp_path: Path) -> Path:
    table.to_csv(tmp_path / "t.csv", index=False)
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m.ow", *FAST)
    return tmp_path / "m.ow"


def test_columns_are_matched_by_name(run: Any, model: Path, table: pd.DataFrame, tmp_path: Path) -> None:
    run("recognize", model, tmp_path / "t.csv", "-o", tmp_path / "expected.csv")
    summary = run.message
    shuffled = table[["c", "label", "a", "b"]].assign(note="x")
    shuffled.to_csv(tmp_path / "s.csv", index=False)
    shuffled.to_parquet(tmp_path / "s.parquet")
    for name in ("s.csv", "s.parquet"):
        run("recognize", model, tmp_path / name, "-o", tmp_path / "found.csv")
        assert f'{name}: ignored column "note".' in run.message
        assert run.message.endswith(summary)
        assert (tmp_path / "found.csv").read_text() == (tmp_path / "expected.csv").read_text()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_column_that_is_missing_is_refused(
    run: Any, model: Path, table: pd.DataFrame, tmp_path: Path, ending: str
) -> None:
    renamed = table.rename(columns={"b": "B"})
    path, before = tmp_path / f"r.{ending}", model.read_bytes()
    renamed.to_csv(path, index=False) if ending == "csv" else renamed.to_parquet(path)
    for command in ("recognize", "learn"):
        run(command, model, path, code=1)
        assert 'has no column named "b". Its columns are: a, B, c, label.' in run.message
    assert model.read_bytes() == before


def test_learning_by_name(run: Any, model: Path, table: pd.DataFrame, tmp_path: Path) -> None:
    new = table.tail(10).assign(label="eel", a=40.0)
    new.to_csv(tmp_path / "n.csv", index=False)
    new[["b", "label", "c", "a"]].to_csv(tmp_path / "s.csv", index=False)
    run("learn", model, tmp_path / "n.csv", "-o", tmp_path / "one.ow")
    run("learn", model, tmp_path / "s.csv", "-o", tmp_path / "other.ow")
    one, other = (openworld.load(tmp_path / f"{name}.ow") for name in ("one", "other"))
    assert np.array_equal(one.statistics_.sums, other.statistics_.sums)
    assert other.feature_names_in_.tolist() == ["a", "b", "c"]


def test_samples_learned_before_are_counted(run: Any, table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_csv(tmp_path / "t.csv", index=False)
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m.ow", "--no-check")
    table.tail(4).to_csv(tmp_path / "again.csv", index=False)
    run("learn", tmp_path / "m.ow", tmp_path / "again.csv", "-o", tmp_path / "n.ow")
    assert "Note: at least 4 samples were learned before as the same class; learned again" in run.message
    assert "another class" not in run.message
    table.head(1).assign(label="dog").to_csv(tmp_path / "other.csv", index=False)
    summary = json.loads(run("learn", tmp_path / "m.ow", tmp_path / "other.csv", "--json"))
    assert (summary["learned_before"], summary["of_two_classes"]) == (0, 1)
    assert "Note: at least 1 sample is learned as another class too" in run.message
    (table.tail(4).set_index("label") + 0.5).reset_index().to_csv(tmp_path / "new.csv", index=False)
    run("learn", tmp_path / "m.ow", tmp_path / "new.csv")
    assert "Note" not in run.message


def test_every_form_has_ids_memberships_and_nearest_classes(
    run: Any, model: Path, table: pd.DataFrame, tmp_path: Path
) -> None:
    table.insert(0, "plant", [f"p{i}" for i in range(60)])
    table.to_csv(tmp_path / "ids.csv", index=False)
    found = []
    for ending, read in (
        ("csv", pd.read_csv),
        ("json", pd.read_json),
        ("jsonl", lambda path: pd.read_json(path, lines=True)),
        ("parquet", pd.read_parquet),
    ):
        path = tmp_path / f"a.{ending}"
        run("recognize", model, tmp_path / "ids.csv", "--id-column", "plant", "--nearest", 2, "-o", path)
        found.append(read(path))
        assert not Path(f"{path}.progress").exists()
    run("recognize", model, tmp_path / "ids.csv", "--id-column", "plant", "--nearest", 2, "--json")
    found.append(pd.DataFrame(json.loads(run.out)))
    expected = ["sample", "id", "answer", "unknown", "membership", "nearest_class", "distance"]
    for frame in found:
        assert list(frame) == [*expected, "nearest_class_2", "distance_2", "membership_2"]
        assert frame["id"].tolist() == table["plant"].tolist()
        assert frame["answer"].tolist() == found[0]["answer"].tolist()
        assert frame["membership"].between(0, 1).all()
        assert np.allclose(frame["distance_2"], found[0]["distance_2"])


def test_answers_have_the_clusters_of_the_sheet(
    run: Any, model: Path, table: pd.DataFrame, tmp_path: Path
) -> None:
    random = np.random.default_rng(1)
    centers = np.repeat([[300.0, 0, 0], [0, 300, 0], [0, 0, 9000]], [20, 30, 1], axis=0)
    new = pd.DataFrame(centers + random.standard_normal((51, 3)), columns=["a", "b", "c"])
    pd.concat([table.head(20).drop(columns="label"), new]).to_csv(tmp_path / "n.csv", index=False)
    sheet = tmp_path / "s.html"
    run("recognize", model, tmp_path / "n.csv", "--sheet", sheet, "-o", tmp_path / "a.csv")
    found = pd.read_csv(tmp_path / "a.csv")
    assert list(found)[-1] == "cluster"
    sizes = found["cluster"].value_counts().to_dict()
    assert sorted(sizes.values()) == [20, 30]
    assert sorted(sizes) == [1, 2]
    assert found.loc[~found["unknown"], "cluster"].isna().all()
    assert found.loc[20:39, "cluster"].nunique() == 1
    page = sheet.read_text(encoding="utf-8")
    assert all(f"Cluster {number:.0f} ({size})" in page for number, size in sizes.items())
    printed = json.loads(run("recognize", model, tmp_path / "n.csv", "--sheet", sheet, "--json"))
    assert [row["cluster"] for row in printed[39:41]] == found["cluster"].tolist()[39:41]
    assert printed[0]["cluster"] is None
    run("recognize", model, tmp_path / "n.csv", "-o", tmp_path / "a.csv")
    assert "cluster" not in pd.read_csv(tmp_path / "a.csv")


def test_a_part_without_clusters_joins_the_others(tmp_path: Path) -> None:
    file = AnswerFile(tmp_path / "a.parquet", "key")
    for number, cluster in enumerate([None, 3]):
        file.keep(number, [{"sample": number, "cluster": cluster}], Tally())
    file.join()
    assert pd.read_parquet(tmp_path / "a.parquet")["cluster"].tolist()[1] == 3


def test_three_numbers_tell_how_right_it_is(run: Any, model: Path, tmp_path: Path) -> None:
    recognizer = openworld.load(model)
    ant, bee = (recognizer.class_mean(label) for label in ("ant", "bee"))
    rows = [(ant, "ant"), (ant, "bee"), (bee + 1e4, "bee"), (bee + 1e4, "fox"), (bee, "fox")]
    frame = pd.DataFrame([x for x, _ in rows], columns=["a", "b", "c"]).assign(label=[y for _, y in rows])
    frame.to_csv(tmp_path / "n.csv", index=False)
    run("recognize", model, tmp_path / "n.csv")
    assert "5 samples: 3 recognized, 2 unknown." in run.message
    assert (
        "2 of 5 answers are right (40.0%), 1 of known classes were called unknown and 2 were misnamed"
        in run.message
    )


def test_standard_input(
    run: Any, model: Path, table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def piped(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))

    piped(table.head(3).to_csv(index=False, sep=";"))
    assert len(json.loads(run("recognize", model, "-", "--json"))) == 3
    piped("a,b\n1,2\n")
    run("recognize", model, "-", code=1)
    assert 'standard input has no column named "c". Its columns are: a, b.' in run.message
    sentences = [
        f"{verb} the {thing}" for verb in ("play", "stop") for thing in ("song", "film", "game", "show")
    ]
    pd.DataFrame({"text": sentences, "label": ["go"] * 4 + ["halt"] * 4}).to_csv(
        tmp_path / "q.csv", index=False
    )
    run("fit", tmp_path / "q.csv", "-o", tmp_path / "q.ow", "--extractor", "ngrams", *FAST)
    for text in (
        "play the music\nstop it\n",
        '{"text": "play the music"}\n{"text": "stop it"}\n',
        "text\nplay\nstop\n",
    ):
        piped(text)
        assert len(json.loads(run("recognize", tmp_path / "q.ow", "-", "--json"))) == 2


def test_the_objective_moves_the_threshold(run: Any, table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_csv(tmp_path / "t.csv", index=False)
    target = tmp_path / "m.ow"
    run("fit", tmp_path / "t.csv", "-o", target, "--objective", "recall=0.9", "--no-check")
    assert openworld.load(target).objective == openworld.KnownRecall(0.9)
    run("learn", target, tmp_path / "t.csv", "--objective", "far=0.02")
    assert openworld.load(target).objective == openworld.FalseAcceptRate(0.02)
    run("recognize", target, tmp_path / "t.csv", "-o", tmp_path / "a.csv", "--objective", "error")
    assert openworld.load(target).objective == openworld.FalseAcceptRate(0.02)
    assert len(pd.read_csv(tmp_path / "a.csv")) == len(table)
