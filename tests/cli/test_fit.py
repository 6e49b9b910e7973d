"""`openworld fit` on tables, and what it says about the model and the data at the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import openworld
from openworld.cli import console


@pytest.fixture
def table() -> pd.DataFrame:
    random = np.random.default_rng(0)
    label = np.repeat(["ant", "bee", "cat", "dog", "eel"], 12)
    centers = np.repeat(10 * random.standard_normal((5, 3)), 12, axis=0)
    frame = pd.DataFrame(centers + random.standard_normal((60, 3)), columns=["a", "b", "c"])
    return frame.assign(label=label)


def test_the_self_check_ends_a_fit(run: Any, table: pd.DataFrame, tmp_path: Path) -> None:
    table.loc[0, "label"] = "bee"  # an ant
    table.loc[30, ["a", "b", "c"]] = table.loc[50, ["a", "b", "c"]]  # a cat and an eel are the same
    table = pd.concat([table, table.tail(1).assign(label="fox", a=99.0)]).assign(same=3.0)
    table.to_csv(tmp_path / "t.csv", index=False)
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m.ow", "--report", tmp_path / "r.html")
    assert "Self-check on 60 held-out samples of 5 classes:" in run.message
    assert "of the samples are called unknown. OSCR 0." in run.message
    assert "95 % interval" in run.message
    assert "sample 1 is labeled bee, looks like ant" in run.message
    assert "the same sample is in two classes: sample 31 and sample 51." in run.message
    assert "1 class has a single sample" in run.message
    assert 'Features with one value throughout: column "same".' in run.message
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<td>sample 1</td><td>bee</td><td>ant</td>" in page
    assert "Warning: the same sample is in two classes" in page
    assert openworld.load(tmp_path / "m.ow").feature_names_in_.tolist() == ["a", "b", "c", "same"]


def test_the_self_check_for_programs(run: Any, table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_csv(tmp_path / "t.csv", index=False)
    summary = json.loads(run("fit", tmp_path / "t.csv", "-o", tmp_path / "m.ow", "--json"))
    check = summary["check"]
    assert check["right"] + check["missed"] + check["misnamed"] == pytest.approx(1)
    assert check["oscr_interval"][0] <= check["oscr"] <= check["oscr_interval"][1]
    assert summary["warnings"] == []
    assert summary["advice"] == []
    assert summary["data"]["few"] == []
    summary = json.loads(run("fit", tmp_path / "t.csv", "-o", tmp_path / "m.ow", "--json", "--no-check"))
    assert "check" not in summary


def test_advice_where_classes_overlap_and_most_samples_are_rejected(run: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    X = np.repeat(1.5 * random.standard_normal((6, 4)), 50, axis=0) + random.standard_normal((300, 4))
    pd.DataFrame(X, columns=list("wxyz")).assign(label=np.repeat(list("abcdef"), 50)).to_csv(
        tmp_path / "t.csv", index=False
    )
    summary = json.loads(run("fit", tmp_path / "t.csv", "-o", tmp_path / "m.ow", "--json"))
    check, (advice,) = summary["check"], summary["advice"]
    n = round((check["nearest_right"] - check["right"]) * check["n_samples"])
    assert advice.startswith(f"{n} held-out samples called unknown have the right nearest class: --objective")
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m.ow")
    assert advice in run.message
    objective = ("--objective", "recall=0.9")
    followed = json.loads(run("fit", tmp_path / "t.csv", "-o", tmp_path / "m.ow", "--json", *objective))
    assert followed["advice"] == []
    assert followed["check"]["right"] > check["right"] + 0.1


def test_warnings_about_two_classes_chance_and_an_id(run: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.standard_normal((400, 3)), columns=["a", "b", "account"])
    frame["account"] *= 1e9
    frame.assign(label=["x", "y"] * 200).to_csv(tmp_path / "t.csv", index=False)
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m.ow")
    assert "Warning: there are two classes only" in run.message
    assert 'Warning: column "account" has nearly all of the variance' in run.message
    assert "named no better than by chance" in run.message


@pytest.mark.usefixtures("own_cache")
def test_folders_named_train_and_test_are_pointed_out(run: Any, tmp_path: Path) -> None:
    for name, level in (("train", 40), ("test", 200)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(6):
            Image.new("L", (8, 8), level + i).save(tmp_path / "photos" / name / f"{i}.png")
    run("fit", tmp_path / "photos", "-o", tmp_path / "m.ow", "--extractor", "pixels")
    assert "the classes are named like parts of a data set (test, train)" in run.message
    assert "photos/test" in run.message


def test_columns_that_are_not_features(run: Any, table: pd.DataFrame, tmp_path: Path) -> None:
    table.assign(customer_id=np.arange(7000, 7060)).to_csv(tmp_path / "t.csv")
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m.ow", "--no-check")
    assert 'ignored columns "", "customer_id"' in run.message
    assert openworld.load(tmp_path / "m.ow").n_features_in_ == 3
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m.ow", "--no-check", "--feature-columns", "c, a")
    assert openworld.load(tmp_path / "m.ow").feature_names_in_.tolist() == ["c", "a"]
    table.assign(text="words").to_csv(tmp_path / "mixed.csv", index=False)
    run("fit", tmp_path / "mixed.csv", "-o", tmp_path / "n.ow", code=1)
    assert 'has a column of texts ("text") and columns of numbers (a, b, c)' in run.message
    assert "--text-column text" in run.message
    assert not (tmp_path / "n.ow").exists()


def test_a_class_named_like_the_unknown(run: Any, table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_csv(tmp_path / "t.csv", index=False)
    table.replace("ant", "unknown").to_csv(tmp_path / "u.csv", index=False)
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m.ow", "--no-check")
    for command in (
        ("fit", tmp_path / "u.csv", "-o", tmp_path / "n.ow"),
        ("learn", tmp_path / "m.ow", tmp_path / "u.csv"),
    ):
        run(*command, code=1)
        assert (
            "The class label 'unknown' is the label that means unknown. Rename that class: its" in run.message
        )
        assert "unknown_label" not in run.message


def test_missing_values(run: Any, table: pd.DataFrame, tmp_path: Path) -> None:
    table.loc[4, "b"] = np.nan
    table.to_csv(tmp_path / "t.csv", index=False)
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m.ow", code=1)
    assert 't.csv: line 6, column "b": the value is missing. Use --missing drop' in run.message
    for choice, n_samples in (("drop", 59), ("mean", 60)):
        run("fit", tmp_path / "t.csv", "-o", tmp_path / "m.ow", "--missing", choice, "--no-check")
        assert f"from {n_samples} samples" in run.message
    run("recognize", tmp_path / "m.ow", tmp_path / "t.csv", "--missing", "mean", "-o", tmp_path / "a.csv")
    assert len(pd.read_csv(tmp_path / "a.csv")) == 60


def test_progress_is_reported_where_there_is_no_terminal(
    run: Any, table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_SECONDS_BETWEEN_LINES", 0.0)
    table.to_csv(tmp_path / "t.csv", index=False)
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m.ow")
    assert "Learning: 60 of 60," in run.message
    assert "Checking on held-out samples: 6 of 6," in run.message


@pytest.fixture
def frames(table: pd.DataFrame) -> pd.DataFrame:
    """Each sample four times, as frames of a video."""
    repeated = pd.concat([table] * 4).assign(video=np.tile([f"v{i}" for i in range(len(table))], 4))
    noise = 1e-3 * np.random.default_rng(1).standard_normal((len(repeated), 3))
    return repeated.assign(**dict(zip("abc", (repeated[["a", "b", "c"]] + noise).to_numpy().T, strict=True)))


def test_groups_are_held_out_together(run: Any, frames: pd.DataFrame, tmp_path: Path) -> None:
    frames.to_csv(tmp_path / "t.csv", index=False)
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m.ow", "--group-column", "video")
    assert "ignored" not in run.message
    assert "Self-check on 240 held-out samples of 5 classes" in run.message
    model = openworld.load(tmp_path / "m.ow")
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    X = frames[["a", "b", "c"]]
    expected = openworld.OpenWorldRecognizer().fit(X, frames["label"], groups=frames["video"])
    np.testing.assert_allclose(model.membership(X), expected.membership(X), atol=1e-4)
    ungrouped = openworld.OpenWorldRecognizer().fit(X, frames["label"])
    assert np.abs(ungrouped.membership(X) - expected.membership(X)).max() > 0.01


def test_only_openworld_takes_groups(run: Any, frames: pd.DataFrame, tmp_path: Path) -> None:
    frames.to_csv(tmp_path / "t.csv", index=False)
    for name in ("nno", "ncm", "softmax-threshold"):
        model = tmp_path / f"{name}.ow"
        command = ("fit", tmp_path / "t.csv", "-o", model, "--recognizer", name, "--group-column", "video")
        run(*command, code=1)
        assert f"--group-column has no meaning for {name}; it is for openworld." in run.message
        assert not model.exists()


def test_a_class_of_one_group_is_not_held_out(run: Any, frames: pd.DataFrame, tmp_path: Path) -> None:
    frames.loc[frames["label"] == "eel", "video"] = "a long one"
    frames.to_csv(tmp_path / "t.csv", index=False)
    summary = json.loads(
        run("fit", tmp_path / "t.csv", "-o", tmp_path / "m.ow", "--group-column", "video", "--json")
    )
    assert summary["check"]["n_samples"] == 4 * 48
    assert summary["classes"] == 5


def test_copies_of_samples_are_pointed_out(run: Any, table: pd.DataFrame, tmp_path: Path) -> None:
    table = pd.concat([table, table.head(20)]).assign(burst=lambda frame: frame.index)
    table.to_csv(tmp_path / "t.csv", index=False)
    summary = json.loads(
        run("fit", tmp_path / "t.csv", "-o", tmp_path / "m.ow", "--feature-columns", "a,b,c", "--json")
    )
    assert summary["data"]["copies_within"] == 0.5
    (warning,) = [one for one in summary["warnings"] if "exact copy" in one]
    assert warning.startswith("50% of the samples have an exact copy in their own class. Copies make")
    assert "name groups of copies with --group-column" in warning
    run("fit", tmp_path / "t.csv", "-o", tmp_path / "m.ow", "--group-column", "burst")
    assert "exact copy" not in run.message


def write_bursts(folder: Path, names: str, n_bursts: int, n_copies: int, seed: int = 0) -> None:
    """Write pictures of classes that vary from burst to burst, in bursts of pictures that hardly vary."""
    random = np.random.default_rng(seed)
    for name in names:
        (folder / name).mkdir(parents=True)
        pattern = np.random.default_rng(ord(name)).uniform(0, 255, (16, 16))
        for burst in range(n_bursts):
            scene = 0.6 * pattern + 0.4 * random.uniform(0, 255, (16, 16))
            for i in range(n_copies):
                pixels = np.clip(scene + random.normal(0, 3, (16, 16)), 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(folder / name / f"{burst}-{i}.png")


@pytest.mark.usefixtures("own_cache")
def test_bursts_count_as_one_picture(run: Any, tmp_path: Path) -> None:
    """Without that hardly any new picture is recognized, and the self-check promises that all are."""
    write_bursts(tmp_path / "photos", "abcdefgh", 4, 5)
    write_bursts(tmp_path / "new", "abcdefgh", 6, 1, seed=1)
    write_bursts(tmp_path / "more", "x", 1, 8, seed=2)
    write_bursts(tmp_path / "later", "x", 12, 1, seed=3)
    right, found = {}, {}
    for option in ("--find-copies", "--no-find-copies"):
        model = tmp_path / "m.ow"
        photos = ("fit", tmp_path / "photos", "-o", model, "--extractor", "pixels", "--json")
        found[option] = json.loads(run(*photos, option))
        run("learn", model, tmp_path / "more", option)
        assert ("8 pictures have near copies in the class" in run.message) == (option == "--find-copies")
        for name in ("new", "later"):
            answers = json.loads(run("recognize", model, tmp_path / name, "--json"))
            right[option, name] = np.mean([one["answer"] == one["name"].split("/")[0] for one in answers])
    assert found["--find-copies"]["near_copies"] == 160
    assert found["--no-find-copies"]["near_copies"] == 0
    assert found["--no-find-copies"]["check"]["right"] > 0.95
    for name in ("new", "later"):
        assert right["--find-copies", name] > right["--no-find-copies", name] + 0.2
    run("fit", tmp_path / "photos", "-o", tmp_path / "m.ow", "--extractor", "pixels", "--no-check")
    assert "160 pictures have near copies in the class" in run.message


@pytest.mark.usefixtures("own_cache")
def test_named_groups_come_before_those_that_are_found(run: Any, tmp_path: Path) -> None:
    write_bursts(tmp_path / "photos", "abc", 3, 4)
    for picture in sorted((tmp_path / "photos").rglob("*.png")):
        (picture.parent / picture.name[0]).mkdir(exist_ok=True)
        picture.rename(picture.parent / picture.name[0] / picture.name)
    options = ("-o", tmp_path / "m.ow", "--extractor", "pixels", "--no-check", "--json")
    summary = json.loads(run("fit", tmp_path / "photos", *options, "--group-column", "folder"))
    assert summary["near_copies"] == 0
    groups = openworld.load(tmp_path / "m.ow").reservoir_.groups(np.array(["a"]))
    assert groups is not None
    assert len(set(groups.tolist())) == 3
