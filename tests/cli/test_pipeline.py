"""Folders of pictures on the command line: fit, recognize, learn, extract, evaluate; what may go wrong."""

from __future__ import annotations

import csv
import json
import shutil
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

import openworld
from openworld.cli import console
from openworld.features.pixels import Pixels

pytestmark = pytest.mark.usefixtures("own_cache")

SIDE = 16
FAST = ("--recognizer", "nno", "--components", 3)
KINDS = ("stripes", "columns", "bright", "dark", "corner")


def draw(kind: str, random: np.random.Generator) -> np.ndarray[Any, Any]:
    """Return a picture of one of five kinds, each a bit different."""
    levels = np.full((SIDE, SIDE), 128.0)
    rows, columns = np.mgrid[:SIDE, :SIDE]
    if kind == "stripes":
        levels[rows % 4 < 2] = 250
    elif kind == "columns":
        levels[columns % 4 < 2] = 250
    elif kind == "bright":
        levels[:] = 240
    elif kind == "dark":
        levels[:] = 15
    else:
        levels[: SIDE // 2, : SIDE // 2] = 255
    return np.clip(levels + random.normal(0, 12, levels.shape), 0, 255).astype(np.uint8)


def save(folder: Path, kinds: tuple[str, ...], count: int, seed: int = 0) -> Path:
    random = np.random.default_rng(seed)
    for kind in kinds:
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            Image.fromarray(draw(kind, random)).save(folder / kind / f"{i:02}.png")
    return folder


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return save(tmp_path / "photos", KINDS[:4], 12)


@pytest.fixture
def model(photos: Path, tmp_path: Path, run: Any) -> Path:
    run("fit", photos, "-o", tmp_path / "kinds.ow", "--extractor", "pixels", *FAST)
    assert "Learned 4 classes from 48 pictures" in run.message
    return tmp_path / "kinds.ow"


def answers(text: str) -> dict[str, str]:
    return {row["name"]: row["answer"] for row in csv.DictReader(text.splitlines())}


def test_the_whole_loop(run: Any, model: Path, tmp_path: Path) -> None:
    new = save(tmp_path / "new", KINDS, 6, seed=1)
    found = answers(run("recognize", model, new))
    assert "30 pictures:" in run.message
    assert "answers are right" in run.message
    right = [
        found[f"{kind}/{i:02}.png"] == ("unknown" if kind == "corner" else kind)
        for kind in KINDS
        for i in range(6)
    ]
    assert sum(right) >= 27
    teach = save(tmp_path / "teach", ("corner",), 8, seed=2)
    run("learn", model, teach)
    assert "Learned 8 pictures, 1 new class; 5 classes known now" in run.message
    found = answers(run("recognize", model, new / "corner"))
    assert list(found) == [f"{i:02}.png" for i in range(6)]
    assert list(found.values()).count("corner") >= 5
    assert "answers are right" not in run.message, "a flat folder has no labels"
    assert openworld.load(model).extractor_ == Pixels.id.as_dict()
    assert "pixels (version 1" in run("inspect", model)
    assert json.loads(run("inspect", model, "--json"))["extractor"].startswith("pixels")


def test_a_flat_folder_is_learned_by_its_label(run: Any, model: Path, tmp_path: Path) -> None:
    flat = save(tmp_path / "teach", ("corner",), 8) / "corner"
    run("learn", model, flat, code=1)
    assert "--label" in run.err
    summary = json.loads(run("learn", model, flat, "--label", "Corner", "--json"))
    assert (summary["samples"], summary["new_classes"], summary["left_out"]) == (8, 1, 0)
    run("learn", model, flat, "--label", "corners", "-o", tmp_path / "other.ow")
    assert "The new class corners is spelled much like Corner" in run.message


def test_extracting_first_gives_the_same_model(run: Any, photos: Path, model: Path, tmp_path: Path) -> None:
    (photos / "beside.png").write_bytes((photos / "dark" / "00.png").read_bytes())
    summary = json.loads(
        run("extract", photos, "-o", tmp_path / "f.npz", "--extractor", "pixels", "--workers", 2, "--json")
    )
    assert (summary["samples"], summary["dimensions"], summary["left_out"]) == (48, 1024, 1)
    with np.load(tmp_path / "f.npz") as file:
        assert sorted(file.files) == ["X", "extractor", "names", "y"]
        assert json.loads(str(file["extractor"])) == Pixels.id.as_dict()
        assert file["names"][0] == "bright/00.png"
        assert file["y"][0] == "bright"
    run("fit", tmp_path / "f.npz", "-o", tmp_path / "again.ow", *FAST)
    X = Pixels().transform([Image.fromarray(draw(kind, np.random.default_rng(3))) for kind in KINDS])
    first, second = openworld.load(model), openworld.load(tmp_path / "again.ow")
    np.testing.assert_array_equal(first.decision_function(X), second.decision_function(X))
    assert second.extractor_ == first.extractor_
    found = answers(run("recognize", model, tmp_path / "f.npz"))
    assert found == {
        name: answer for name, answer in answers(run("recognize", model, photos)).items() if "/" in name
    }


def test_lists_zips_and_single_pictures(run: Any, photos: Path, model: Path, tmp_path: Path) -> None:
    files = sorted(photos.rglob("*.png"))
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        for path in files:
            archive.write(path, path.relative_to(tmp_path))
    lines = [str(path.relative_to(tmp_path)) for path in files]
    (tmp_path / "list.txt").write_text("\n".join(lines))
    (tmp_path / "list.csv").write_text("path,label\n" + "".join(f"{p},{p.split('/')[1]}\n" for p in lines))
    X = Pixels().transform([Image.open(path) for path in files[::5]])
    expected = openworld.load(model).decision_function(X)
    for name in ("photos.zip", "list.txt", "list.csv"):
        run("fit", tmp_path / name, "-o", tmp_path / "m.ow", "--extractor", "pixels", *FAST)
        np.testing.assert_array_equal(openworld.load(tmp_path / "m.ow").decision_function(X), expected)
    assert list(answers(run("recognize", model, files[0]))) == [files[0].name]
    assert "1 picture:" in run.message


def test_what_cannot_be_read_is_summed_up(run: Any, photos: Path, tmp_path: Path) -> None:
    for i in range(12):
        (photos / "dark" / f"bad{i:02} [red].png").write_bytes(b"no picture" * i)
    (photos / "notes.txt").write_text("no picture, and not meant as one")
    fit = ("fit", photos, "-o", tmp_path / "m.ow", "--extractor", "pixels", *FAST)
    run(*fit)
    assert "Learned 4 classes from 48 pictures" in run.message
    assert "12 could not be read and were skipped:" in run.message
    assert "dark/bad00 [red].png: the file is empty" in run.message
    assert "dark/bad09 [red].png" in run.message
    assert "dark/bad10" not in run.message
    assert "... and 2 more." in run.message
    (tmp_path / "m.ow").unlink()
    run(*fit, "--on-error", "stop", code=1)
    assert "dark/bad00 [red].png: the file is empty" in run.err
    assert not (tmp_path / "m.ow").exists()


def test_an_interrupt_keeps_what_was_done(
    run: Any, photos: Path, tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[int] = []
    transform = Pixels.transform

    def interrupted(self: Pixels, batch: Any) -> Any:
        if done:
            raise KeyboardInterrupt
        done.append(len(batch))
        return transform(self, batch)

    monkeypatch.setattr(Pixels, "transform", interrupted)
    fit = ("fit", photos, "-o", tmp_path / "m.ow", "--extractor", "pixels", "--workers", 1, *FAST)
    run(*fit, code=130)
    assert (
        f"Interrupted after {done[0]} of 48. The features extracted so far are cached; the same command"
        in run.message
    )
    assert not (tmp_path / "m.ow").exists()
    sizes: list[int] = []
    monkeypatch.setattr(
        Pixels, "transform", lambda self, batch: sizes.append(len(batch)) or transform(self, batch)
    )
    run(*fit)
    assert sum(sizes) == 48 - done[0], "only the rest was extracted"


def test_progress_in_a_terminal(
    run: Any, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Console(stderr=True, force_terminal=True, force_interactive=True, width=120)
    monkeypatch.setattr(console, "messages", terminal)
    run("extract", photos, "-o", tmp_path / "f.npz", "--extractor", "pixels")
    assert "Extracting features" in run.err
    assert "48/48" in run.err
    assert str(console._Rate().render(SimpleNamespace(speed=1234.4))) == "1,234/s"
    assert str(console._Rate().render(SimpleNamespace(speed=None))) == ""


def test_evaluate_takes_folders(run: Any, tmp_path: Path) -> None:
    photos = save(tmp_path / "photos", KINDS, 8)
    (photos / "dark" / "bad.png").write_bytes(b"no picture")
    (tmp_path / "mine.toml").write_text("n_starting = 2\nstep = 1\nn_known = 3\nunknown = [2]\norders = 1\n")
    run(
        "evaluate", tmp_path / "mine.toml", "--data", f"{photos}@pixels", "--recognizer", "NCM",
        "-o", tmp_path / "out", "--workers", 0,
    )  # fmt: skip
    assert "dark/bad.png" in run.message
    with (tmp_path / "out" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["data"] for row in rows} == {f"{photos}@pixels"}
    closed = [float(row["value"]) for row in rows if row["measure"] == "closed_accuracy" and row["U"] == "0"]
    assert min(closed) > 0.9


def test_classes_of_nearly_the_same_name_are_pointed_out(run: Any, photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos / "dark", photos / "Dark")
    run("fit", photos, "-o", tmp_path / "m.ow", "--extractor", "pixels", *FAST)
    assert "Classes with similar names: 'Dark', 'dark'. They stay separate." in run.message
    assert len(openworld.load(tmp_path / "m.ow").classes_) == 5


def test_folders_that_are_no_classes_are_not_held_against_the_answers(
    run: Any, model: Path, tmp_path: Path
) -> None:
    save(tmp_path, ("dark",), 3)
    (tmp_path / "2024").mkdir()
    (tmp_path / "dark").rename(tmp_path / "2024" / "may")
    run("recognize", model, tmp_path / "2024")
    assert "3 pictures:" in run.message
    assert "right" not in run.message


def test_errors_are_one_line_and_say_what_to_do(run: Any, photos: Path, model: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "1.png").write_bytes(b"no picture")
    (tmp_path / "cut.zip").write_bytes(b"PK\x03\x04")
    (tmp_path / "vectors.csv").write_text("a,b,label\n1,2,x\n3,4,x\n1,3,y\n3,5,y\n")
    (tmp_path / "texts.txt").write_text("a sentence\n")
    new, npz = tmp_path / "new.ow", tmp_path / "f.npz"
    run("fit", tmp_path / "vectors.csv", "-o", tmp_path / "vectors.ow", "--recognizer", "ncm")
    before = model.read_bytes()
    for arguments, words in [
        (("fit", tmp_path / "empty", "-o", new), "no pictures found"),
        (("fit", photos / "dark", "-o", new), "one sub-folder per class"),
        (("fit", photos, "-o", new, "--extractor", "pixl"), "There is no extractor 'pixl'. Choose one of: "),
        (("fit", photos, "-o", new, "--extractor", "ngrams"), "ngrams takes texts"),
        (("fit", tmp_path / "cut.zip", "-o", new), "not a valid .zip"),
        (("fit", tmp_path / "vectors.csv", "-o", new, "--extractor", "pixels"), "need no extractor"),
        (("recognize", model, tmp_path / "empty"), "no pictures found"),
        (("recognize", model, tmp_path / "bad"), "it has 1 picture, but none can be used"),
        (("recognize", model, tmp_path / "vectors.csv"), "on features of pixels"),
        (("recognize", model, tmp_path / "texts.txt"), "pixels takes pictures"),
        (("recognize", model, photos, "--extractor", "ngrams"), "on features of pixels"),
        (("recognize", tmp_path / "vectors.ow", photos), "fitted on plain vectors of 2 features"),
        (("recognize", model, photos, "--sheet", tmp_path / "nowhere" / "s.html"), "does not exist"),
        (("learn", tmp_path / "vectors.ow", photos), "fitted on plain vectors of 2 features"),
        (("learn", model, photos / "dark"), "--label"),
        (("extract", photos, "-o", tmp_path / "f.csv"), "written as .npz"),
        (("extract", photos, "-o", tmp_path / "nowhere" / "f.npz"), "does not exist"),
        (("extract", tmp_path / "vectors.csv", "-o", npz), "nothing to extract"),
        (("evaluate", "paper-50", "--data", f"{photos}@pixl", "-o", tmp_path / "out"), "no extractor 'pixl'"),
    ]:
        assert run(*arguments, code=1) == "", arguments
        assert run.err.startswith("Error: "), arguments
        assert run.err.count("\n") == 1, run.err
        assert words in run.err, (arguments, run.err)
    assert model.read_bytes() == before
    assert not new.exists()
    assert not npz.exists()


def test_sentences(run: Any, tmp_path: Path) -> None:
    said = {
        "weather": ["will it rain {}", "is it sunny {}", "how warm will it be {}", "does it snow {}"],
        "music": ["play a song {}", "play some music {}", "turn the music on {}", "play the album {}"],
        "money": ["send money to her {}", "pay the bill {}", "transfer money {}", "pay my rent {}"],
    }
    when = ("today", "tomorrow", "on Monday", "now")
    lines = [
        f'"{text.format(day)}",{label}' for label, texts in said.items() for text in texts for day in when
    ]
    (tmp_path / "questions.csv").write_text("text,label\n" + "\n".join(lines) + "\n")
    run(
        "fit",
        tmp_path / "questions.csv",
        "-o",
        tmp_path / "q.ow",
        "--extractor",
        "ngrams",
        *FAST[:2],
        "--components",
        2,
    )
    assert "Learned 3 classes from 48 texts" in run.message
    (tmp_path / "new.txt").write_text("will it rain on Sunday\nplay the music tomorrow\n<b>qzxv</b> jjkw\n")
    rows = list(csv.DictReader(run("recognize", tmp_path / "q.ow", tmp_path / "new.txt").splitlines()))
    assert [row["text"] for row in rows][:2] == ["will it rain on Sunday", "play the music tomorrow"]
    assert [row["nearest_class"] for row in rows][:2] == ["weather", "music"]
    run(
        "recognize",
        tmp_path / "q.ow",
        tmp_path / "new.txt",
        "--sheet",
        tmp_path / "s.html",
        "-o",
        tmp_path / "a.csv",
    )
    page = (tmp_path / "s.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;qzxv&lt;/b&gt;" in page
    assert "<img" not in page
    run("recognize", tmp_path / "q.ow", tmp_path / "missing.txt", code=1)
    assert "no such file" in run.err


def test_sub_folders_are_groups(run: Any, photos: Path, tmp_path: Path) -> None:
    for kind in KINDS[:4]:
        for burst, numbers in (("monday", range(4)), ("tuesday", range(4, 8))):
            (photos / kind / burst).mkdir()
            for i in numbers:
                (photos / kind / f"{i:02}.png").rename(photos / kind / burst / f"{i:02}.png")
    by_folder = ("--group-column", "folder")
    run("fit", photos, "-o", tmp_path / "direct.ow", "--extractor", "pixels", *by_folder)
    run("extract", photos, "-o", tmp_path / "f.npz", "--extractor", "pixels", *by_folder)
    with np.load(tmp_path / "f.npz") as file:
        X, y, groups = file["X"], file["y"], file["groups"]
    assert sorted(set(groups.tolist()))[:3] == ["", "bright/monday", "bright/tuesday"]
    assert [(groups == name).sum() for name in ("", "dark/monday")] == [16, 4]
    run("fit", tmp_path / "f.npz", "-o", tmp_path / "extracted.ow", "--group-column", "groups")
    direct, extracted = openworld.load(tmp_path / "direct.ow"), openworld.load(tmp_path / "extracted.ow")
    np.testing.assert_allclose(direct.membership(X), extracted.membership(X))
    expected = openworld.OpenWorldRecognizer().fit(X, y, groups=groups)
    np.testing.assert_allclose(direct.membership(X), expected.membership(X), atol=1e-4)
    run("extract", photos, "-o", tmp_path / "none.npz", "--extractor", "pixels")
    assert "groups" not in np.load(tmp_path / "none.npz").files
    run("fit", photos, "-o", tmp_path / "m.ow", "--extractor", "pixels", "--group-column", "burst", code=1)
    assert "holds pictures in folders, which have no columns. Use --group-column folder" in run.message


def test_groups_of_a_folder_of_one_class(run: Any, photos: Path, model: Path, tmp_path: Path) -> None:
    run("fit", photos, "-o", tmp_path / "m.ow", "--extractor", "pixels", "--no-check")
    corner = save(tmp_path / "teach", ("monday", "tuesday"), 3)  # sub-folders that are bursts, not classes
    command = ("--label", "corner", "--group-column", "folder")
    summary = json.loads(run("learn", tmp_path / "m.ow", corner, *command, "--json"))
    assert (summary["samples"], summary["new_classes"]) == (6, 1)
    assert "no sub-folders" not in run.message
    run("learn", model, corner, *command, code=1)
    assert (
        "--group-column has no meaning for a NearestNonOutlier; it is for models of openworld." in run.message
    )
