"""From what a user has to samples, and what fits which model."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from openworld.data.sources import Item, in_memory, open_source
from openworld.data.tables import DataError, read_samples
from openworld.features.extraction import ExtractionError
from openworld.features.extractor import WrongExtractor, load_extractor
from openworld.samples import load_samples


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENWORLD_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for name, grey in (("cat/1.png", 0), ("cat/2.png", 51), ("dog/1.png", 255), ("beside.png", 102)):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), grey).save(path)
    return tmp_path / "photos"


def model(extractor: str | None, n_features: int = 1024) -> Any:
    """Stand in for a fitted recognizer."""
    if extractor is None:
        return SimpleNamespace(n_features_in_=n_features)
    return SimpleNamespace(n_features_in_=n_features, extractor_=load_extractor(extractor).id.as_dict())


def test_pictures_become_features(photos: Path) -> None:
    seen: list[tuple[int, int]] = []
    loaded = load_samples(photos, extractor="pixels", progress=lambda done, total: seen.append((done, total)))
    samples = loaded.samples
    assert samples.names == ["beside.png", "cat/1.png", "cat/2.png", "dog/1.png"]
    assert samples.y is not None
    assert samples.y.tolist() == ["", "cat", "cat", "dog"]
    np.testing.assert_allclose(samples.X, np.tile([[0.4], [0], [0.2], [1]], 1024), atol=1e-6)
    assert samples.extractor == load_extractor("pixels").id.as_dict()
    assert seen[-1] == (4, 4)
    assert loaded.is_test is None


def test_labels_where_they_are_needed(photos: Path) -> None:
    loaded = load_samples(photos, extractor="pixels", need_labels=True)
    assert loaded.n_unlabelled == 1
    assert loaded.samples.y is not None
    assert loaded.samples.y.tolist() == ["cat", "cat", "dog"]
    loaded = load_samples(photos, extractor="pixels", need_labels=True, label="animal")
    assert loaded.n_unlabelled == 0
    assert loaded.samples.y is not None
    assert loaded.samples.y.tolist() == ["animal"] * 4
    with pytest.raises(
        DataError, match="one sub-folder per class, or name the class of all of them with --label"
    ):
        load_samples(photos / "cat", extractor="pixels", need_labels=True)


def test_texts_become_features(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("text,label\nwhere is it,ask\nthank you,thanks\n")
    loaded = load_samples(tmp_path / "q.csv", extractor="ngrams")
    assert loaded.samples.names == ["where is it", "thank you"]
    expected = load_extractor("ngrams").transform(["where is it", "thank you"])
    np.testing.assert_allclose(loaded.samples.X, expected)


def test_what_cannot_be_read_is_left_out_or_stops_it(photos: Path) -> None:
    (photos / "cat" / "3.png").write_bytes(b"no picture")
    (photos / "dog" / "2.jpg").write_bytes(b"")
    loaded = load_samples(photos, extractor="pixels")
    assert [failure.name for failure in loaded.failures] == ["cat/3.png", "dog/2.jpg"]
    assert len(loaded.samples) == 4
    with pytest.raises(ExtractionError, match=r"cat/3\.png"):
        load_samples(photos, extractor="pixels", on_error="stop")
    for path in photos.rglob("*.png"):
        path.write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"none of its 6 pictures could be used. The first is beside\.png"):
        load_samples(photos, extractor="pixels")


def test_the_cache_is_used_unless_it_is_not_wanted(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_samples(photos, extractor="pixels", cache=False)
    assert not (tmp_path / "cache").exists()
    before = load_samples(photos, extractor="pixels").samples.X
    pixels = load_extractor("pixels")
    monkeypatch.setattr(type(pixels), "transform", lambda self, batch: pytest.fail("extracted again"))
    np.testing.assert_array_equal(load_samples(photos, extractor="pixels").samples.X, before)


def test_a_source_of_ones_own() -> None:
    source = in_memory("mine", "text", [Item("a", "x", lambda: b"hello"), Item("b", None, lambda: b"you")])
    loaded = load_samples(source, extractor=load_extractor("ngrams"))
    assert loaded.samples.names == ["a", "b"]
    assert loaded.source is source


def test_the_extractor_of_the_model_is_used(photos: Path) -> None:
    assert load_samples(photos, model=model("pixels")).samples.X.shape == (4, 1024)
    assert load_samples(photos, model=model("pixels"), extractor="pixels").samples.X.shape == (4, 1024)


def test_what_does_not_fit_the_model(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text("a sentence\n")
    np.savez(tmp_path / "v.npz", X=np.ones((2, 1024)))
    np.savez(
        tmp_path / "f.npz", X=np.ones((2, 1024)), extractor=json.dumps(load_extractor("ngrams").id.as_dict())
    )
    altered = model("pixels")
    altered.extractor_ = {**altered.extractor_, "version": "0"}
    texts, vectors, features = (tmp_path / name for name in ("q.txt", "v.npz", "f.npz"))
    pixels, ngrams = model("pixels"), model("ngrams")
    for data, options, kind, words in [
        (photos, {"model": model(None, 3)}, DataError, "holds pictures.* learnt on plain vectors of 3"),
        (photos, {"model": ngrams}, DataError, "holds pictures, but ngrams takes texts"),
        (photos, {"extractor": "ngrams"}, DataError, "holds pictures, but ngrams takes texts"),
        (photos, {"extractor": "pixls"}, ValueError, "There is no extractor 'pixls'; there are efficientnet"),
        (photos, {"model": altered}, WrongExtractor, "on features of pixels"),
        (texts, {"model": pixels}, DataError, "holds texts, but pixels takes pictures"),
        (texts, {"model": pixels, "extractor": "ngrams"}, WrongExtractor, "pixels"),
        (vectors, {"model": pixels}, DataError, "holds plain vectors.*features of pixels"),
        (vectors, {"extractor": "pixels"}, DataError, "vectors, which need no extractor"),
        (features, {"model": pixels}, WrongExtractor, "on features of pixels.*ngrams"),
        (vectors, {"need_labels": True}, DataError, "no labels in it"),
        (texts, {"need_labels": True, "extractor": "ngrams"}, DataError, "no labels in it"),
    ]:
        with pytest.raises(kind, match=words):
            load_samples(data, **options)


def test_vectors_pass_as_they_are(tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", X=np.arange(6.0).reshape(2, 3), y=["a", "b"])
    loaded = load_samples(tmp_path / "v.npz", model=model(None, 3))
    assert loaded.source is None
    assert loaded.samples.X.tolist() == read_samples(tmp_path / "v.npz").X.tolist()
    loaded = load_samples(tmp_path / "v.npz", label="c")
    assert loaded.samples.y is not None
    assert loaded.samples.y.tolist() == ["c", "c"]


def test_a_test_part_is_told(photos: Path) -> None:
    photos.joinpath("train").mkdir()
    for old, new in (("cat/1.png", "train/n00000001/1.png"), ("dog/1.png", "val/n00000001/1.png")):
        (photos / new).parent.mkdir(parents=True)
        (photos / old).rename(photos / new)
    assert open_source(photos) is not None
    loaded = load_samples(photos, extractor="pixels")
    assert loaded.samples.names == ["train/n00000001/1.png", "val/n00000001/1.png"]
    assert loaded.is_test is not None
    assert loaded.is_test.tolist() == [False, True]
