"""The letters in the paper's feature sets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from openworld.data.letters import Letters
from openworld.evaluation import datasets
from openworld.evaluation.experiment import EXPERIMENTS
from openworld.features import HOG


@pytest.fixture
def few_letters(monkeypatch: pytest.MonkeyPatch) -> Letters:
    images = np.random.default_rng(0).integers(0, 256, size=(4, 28, 28), dtype=np.uint8)
    letters = Letters(images, np.array(["a", "a", "b", "b"]), np.array(["x", "y", "x", "y"]))
    monkeypatch.setattr(datasets, "load_letters", lambda: letters)
    return letters


@pytest.mark.parametrize(
    ("name", "n_features"), [("letters-sift", 2048), ("letters-hog", 775), ("letters-lbp", 531)]
)
def test_feature_sets_of_the_letters(few_letters: Letters, name: str, n_features: int) -> None:
    dataset = datasets.load(name)
    assert dataset.X.shape == (4, n_features)
    assert dataset.X.dtype == np.float32
    assert dataset.y.tolist() == ["a", "a", "b", "b"]
    assert dataset.groups is not None
    assert dataset.groups.tolist() == ["x", "y", "x", "y"]
    assert len(np.unique(dataset.X, axis=0)) == 4


def test_a_row_is_the_descriptors_of_one_letter(few_letters: Letters) -> None:
    rows = datasets.load("letters-hog").X
    np.testing.assert_allclose(rows[2], HOG(cell=4).descriptors(few_letters.images[2]).ravel(), rtol=1e-6)


def test_the_features_experiment_names_feature_sets_that_exist() -> None:
    assert set(EXPERIMENTS["features"].data) == set(datasets.FEATURE_SETS)


def test_other_names_are_left_to_the_data_layer(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no built-in data set"):
        datasets.load("no-such-data")
    np.savez(tmp_path / "v.npz", X=np.eye(3), y=["a", "b", "c"])
    assert datasets.load(str(tmp_path / "v.npz")).X.tolist() == np.eye(3).tolist()


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENWORLD_CACHE", str(tmp_path / "cache"))
    for name, gray in (("cat/1.png", 0), ("cat/2.png", 51), ("dog/1.png", 255), ("beside.png", 102)):
        path = tmp_path / "my.photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), gray).save(path)
    (tmp_path / "my.photos" / "dog" / "2.png").write_bytes(b"no picture")
    return tmp_path / "my.photos"


def test_pictures_by_an_extractor(photos: Path) -> None:
    dataset = datasets.load(f"{photos}@pixels")
    assert dataset.name == "my.photos@pixels"
    assert dataset.y.tolist() == ["cat", "cat", "dog"]
    np.testing.assert_allclose(dataset.X, np.tile([[0], [0.2], [1]], 1024), atol=1e-6)
    assert dataset.is_test is None
    assert datasets.load(f"{photos}@pixels").fingerprint() == dataset.fingerprint()


def test_texts_by_an_extractor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENWORLD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "q.csv").write_text("text,label\nwhere is it,ask\nthank you,thanks\n")
    dataset = datasets.load(f"{tmp_path / 'q.csv'}@ngrams")
    assert dataset.y.tolist() == ["ask", "thanks"]
    assert len(dataset.X) == 2


def test_names_with_an_extractor(tmp_path: Path) -> None:
    for folder in ("photos", "me@home"):
        (tmp_path / folder).mkdir()
    photos, home = str(tmp_path / "photos"), str(tmp_path / "me@home")
    assert datasets.split_name(f"{photos}@efficientnet-lite0@128") == (photos, "efficientnet-lite0@128")
    assert datasets.split_name(photos) == (photos, None)
    assert datasets.split_name(home) == (home, None)
    assert datasets.split_name(f"{home}@pixels") == (home, "pixels")
    assert datasets.split_name("letters") == ("letters", None)
    assert datasets.split_name("missing@pixels") == ("missing@pixels", None)


def test_the_test_part_of_ilsvrc(photos: Path) -> None:
    for old, new in (("cat/1.png", "train/n00000001/1.png"), ("dog/1.png", "val/n00000001/1.png")):
        (photos / new).parent.mkdir(parents=True)
        (photos / old).rename(photos / new)
    dataset = datasets.load(f"{photos}@pixels")
    assert dataset.y.tolist() == ["n00000001"] * 2
    assert dataset.is_test is not None
    assert dataset.is_test.tolist() == [False, True]
