"""From what a user has to samples, and what fits which model."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from openworld.data import picture_files
from openworld.data.columns import Columns
from openworld.data.errors import DataError
from openworld.data.sources import Item, listed_items, open_source
from openworld.data.stream import Batch, Stream
from openworld.data.streams import open_stream
from openworld.features.extraction import ExtractionError
from openworld.features.extractor import WrongExtractor, load_extractor
from openworld.samples import Extraction, open_samples


def opened(
    data: Any, *, extractor: Any = None, on_error: Any = "skip", cache: bool = True, **options: Any
) -> Stream:
    return open_samples(data, extraction=Extraction(extractor, on_error, None, cache), **options)


def load(data: Any, **options: Any) -> Batch:
    return opened(data, **options).read()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENWORLD_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for name, gray in (("cat/1.png", 0), ("cat/2.png", 51), ("dog/1.png", 255), ("beside.png", 102)):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), gray).save(path)
    return tmp_path / "photos"


def model(extractor: str | None, n_features: int = 1024) -> Any:
    """Stand in for a fitted recognizer."""
    if extractor is None:
        return SimpleNamespace(n_features_in_=n_features)
    return SimpleNamespace(n_features_in_=n_features, extractor_=load_extractor(extractor).id.as_dict())


def test_pictures_become_features(photos: Path) -> None:
    stream = opened(photos, extractor="pixels")
    samples = stream.read()
    assert samples.names == ["beside.png", "cat/1.png", "cat/2.png", "dog/1.png"]
    assert samples.y is not None
    assert samples.y.tolist() == ["", "cat", "cat", "dog"]
    np.testing.assert_allclose(samples.X, np.tile([[0.4], [0], [0.2], [1]], 1024), atol=1e-6)
    assert samples.rows.tolist() == [0, 1, 2, 3]
    assert stream.extractor == load_extractor("pixels").id.as_dict()
    assert (len(stream), stream.noun, stream.labeled) == (4, "picture", True)


def test_labels_where_they_are_needed(photos: Path) -> None:
    loaded = load(photos, extractor="pixels", need_labels=True)
    assert loaded.n_unlabeled == 1
    assert loaded.y is not None
    assert loaded.y.tolist() == ["cat", "cat", "dog"]
    loaded = load(photos, extractor="pixels", need_labels=True, label="animal")
    assert loaded.n_unlabeled == 0
    assert loaded.y is not None
    assert loaded.y.tolist() == ["animal"] * 4
    with pytest.raises(
        DataError,
        match="one sub-folder per class; for pictures of a single class use openworld learn --label",
    ):
        load(photos / "cat", extractor="pixels", need_labels=True)


def test_texts_become_features(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("text,label\nwhere is it,ask\nthank you,thanks\n")
    loaded = load(tmp_path / "q.csv", extractor="ngrams")
    assert loaded.names == ["where is it", "thank you"]
    expected = load_extractor("ngrams").transform(["where is it", "thank you"])
    np.testing.assert_allclose(loaded.X, expected)


def test_what_cannot_be_read_is_left_out_or_stops_it(photos: Path) -> None:
    (photos / "cat" / "3.png").write_bytes(b"no picture")
    (photos / "dog" / "2.jpg").write_bytes(b"")
    loaded = load(photos, extractor="pixels")
    assert [name for name, _ in loaded.failures] == ["cat/3.png", "dog/2.jpg"]
    assert len(loaded) == 4
    with pytest.raises(ExtractionError, match=r"cat/3\.png"):
        load(photos, extractor="pixels", on_error="stop")
    for path in photos.rglob("*.png"):
        path.write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"it has 6 pictures, but none can be used. The first is beside\.png"):
        load(photos, extractor="pixels")


def test_the_cache_is_used_unless_it_is_not_wanted(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(photos, extractor="pixels", cache=False)
    assert not (tmp_path / "cache").exists()
    before = load(photos, extractor="pixels").X
    pixels = load_extractor("pixels")
    monkeypatch.setattr(type(pixels), "transform", lambda self, batch: pytest.fail("extracted again"))
    np.testing.assert_array_equal(load(photos, extractor="pixels").X, before)


def test_a_source_of_ones_own() -> None:
    source = listed_items("mine", "text", [Item("a", "x", lambda: b"hello"), Item("b", None, lambda: b"you")])
    stream = opened(source, extractor=load_extractor("ngrams"))
    assert stream.read().names == ["a", "b"]
    assert stream.source is source


def test_the_extractor_of_the_model_is_used(photos: Path) -> None:
    assert load(photos, model=model("pixels")).X.shape == (4, 1024)
    assert load(photos, model=model("pixels"), extractor="pixels").X.shape == (4, 1024)


def test_what_does_not_fit_the_model(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text("a sentence\n")
    np.savez(tmp_path / "v.npz", X=np.ones((2, 1024)))
    np.savez(
        tmp_path / "f.npz", X=np.ones((2, 1024)), extractor=json.dumps(load_extractor("ngrams").id.as_dict())
    )
    altered = model("pixels")
    altered.extractor_ = {**altered.extractor_, "version": "0"}
    (tmp_path / "t.csv").write_text("a,kind\n1,setosa\n")
    texts, vectors, features, table = (tmp_path / name for name in ("q.txt", "v.npz", "f.npz", "t.csv"))
    pixels, ngrams = model("pixels"), model("ngrams")
    for data, options, kind, words in [
        (photos, {"model": model(None, 3)}, DataError, "holds pictures.* fitted on plain vectors of 3"),
        (photos, {"model": ngrams}, DataError, "holds pictures, but ngrams takes texts"),
        (photos, {"extractor": "ngrams"}, DataError, "holds pictures, but ngrams takes texts"),
        (
            photos,
            {"extractor": "pixls"},
            ValueError,
            "There is no extractor 'pixls'. Choose one of: efficientnet",
        ),
        (photos, {"model": altered}, WrongExtractor, "on features of pixels"),
        (texts, {"model": pixels}, DataError, "holds texts, but pixels takes pictures"),
        (texts, {"model": pixels, "extractor": "ngrams"}, WrongExtractor, "pixels"),
        (vectors, {"model": pixels}, DataError, "holds plain vectors.*features of pixels"),
        (
            table,
            {"model": ngrams},
            DataError,
            r"no column of texts .* of ngrams\. Its columns are: a, kind\.",
        ),
        (vectors, {"extractor": "pixels"}, DataError, "vectors, which need no extractor"),
        (features, {"model": pixels}, WrongExtractor, "on features of pixels.*ngrams"),
        (vectors, {"need_labels": True}, DataError, "has no labels"),
        (vectors, {"model": model(None, 3)}, DataError, "v.npz has 1,024 features .* fitted on 3"),
        (texts, {"need_labels": True, "extractor": "ngrams"}, DataError, "has no labels"),
    ]:
        with pytest.raises(kind, match=words):
            load(data, **options)


def test_vectors_pass_as_they_are(tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", X=np.arange(6.0).reshape(2, 3), y=["a", "b"])
    stream = opened(tmp_path / "v.npz", model=model(None, 3))
    assert (stream.source, stream.noun, len(stream.parts)) == (None, "sample", 1)
    assert stream.read().X.tolist() == open_stream(tmp_path / "v.npz").read().X.tolist()
    loaded = load(tmp_path / "v.npz", label="c")
    assert loaded.y is not None
    assert loaded.y.tolist() == ["c", "c"]


def test_a_test_part_is_reported(photos: Path) -> None:
    photos.joinpath("train").mkdir()
    for old, new in (("cat/1.png", "train/n00000001/1.png"), ("dog/1.png", "val/n00000001/1.png")):
        (photos / new).parent.mkdir(parents=True)
        (photos / old).rename(photos / new)
    assert open_source(photos) is not None
    stream = opened(photos, extractor="pixels")
    names = stream.read().names
    assert names == ["train/n00000001/1.png", "val/n00000001/1.png"]
    assert stream.source is not None
    assert stream.source.is_test is not None
    assert [stream.source.is_test(name) for name in names] == [False, True]


def test_a_folder_is_listed_once(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[Path] = []
    original = picture_files.file_names
    monkeypatch.setattr(picture_files, "file_names", lambda path: listed.append(path) or original(path))
    stream = opened(photos, extractor="pixels", items_in_a_part=2)
    stream.read()
    assert [part.labels().tolist() for part in stream.parts] == [["", "cat"], ["cat", "dog"]]
    assert listed == [photos]


def test_parts_of_pictures_give_what_the_whole_gives(photos: Path) -> None:
    (photos / "cat" / "3.png").write_bytes(b"no picture")
    whole = load(photos, extractor="pixels")
    stream = opened(photos, extractor="pixels", items_in_a_part=2)
    assert [len(part) for part in stream.parts] == [2, 2, 1]
    parts = stream.read()
    assert np.array_equal(parts.X, whole.X)
    assert parts.names == whole.names == ["beside.png", "cat/1.png", "cat/2.png", "dog/1.png"]
    assert parts.rows.tolist() == whole.rows.tolist() == [0, 1, 2, 4]
    assert parts.failures == whole.failures
    (some,) = stream.parts[1].select(np.array([False, True]))
    assert (len(some), some.failures[0][0]) == (0, "cat/3.png")


def test_a_part_opens_its_source_again_in_another_process(photos: Path) -> None:
    stream = opened(photos, extractor="pixels", items_in_a_part=3)
    sent = pickle.loads(pickle.dumps(stream.parts))  # noqa: S301 -- as Dask sends it
    assert np.array_equal(
        Batch.joined(list(sent[1].batches())).X, Batch.joined(list(stream.parts[1].batches())).X
    )
    own = opened(listed_items("mine", "text", [Item("a", "x", lambda: b"hello")]), extractor="ngrams")
    with pytest.raises(DataError, match="Give a path"):
        pickle.dumps(own.parts)


def test_arrays_without_names_are_taken_by_position(tmp_path: Path) -> None:
    model = SimpleNamespace(feature_names_in_=np.array(["height", "weight"]), n_features_in_=2)
    np.save(tmp_path / "two.npy", np.ones((3, 2)))
    np.save(tmp_path / "three.npy", np.ones((3, 3)))
    assert load(tmp_path / "two.npy", model=model).X.shape == (3, 2)
    with pytest.raises(DataError, match="3 features per sample, but the model was fitted on 2"):
        load(tmp_path / "three.npy", model=model)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_without_labels_names_the_column_that_may_hold_them(tmp_path: Path, ending: str) -> None:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    table, path = pa.table({"text": ["what is my balance"], "intent": ["balance"]}), tmp_path / f"q.{ending}"
    pa.csv.write_csv(table, path) if ending == "csv" else pq.write_table(table, path)
    with pytest.raises(
        DataError, match=r'no column named "label".*columns are: intent.*--label-column intent'
    ):
        load(path, extractor="ngrams", need_labels=True)


def test_groups_of_pictures_and_texts(photos: Path, tmp_path: Path) -> None:
    (photos / "cat" / "burst").mkdir()
    for name in ("1.png", "2.png"):
        (photos / "cat" / name).rename(photos / "cat" / "burst" / name)
    by_folder = Columns(group="folder")
    stream = opened(photos, extractor="pixels", columns=by_folder, need_labels=True, items_in_a_part=2)
    groups = [batch.groups for batch in stream.batches()]  # of the pictures with a label, in two parts
    assert [None if one is None else one.tolist() for one in groups] == [["cat/burst"], ["cat/burst", ""]]
    assert stream.read().groups is not None
    assert load(photos, extractor="pixels").groups is None
    one_class = load(photos / "cat", extractor="pixels", columns=by_folder, label="cat")
    assert one_class.groups is not None
    assert one_class.groups.tolist() == ["burst", "burst"]
    flat = load(photos / "dog", extractor="pixels", columns=by_folder, label="dog")
    assert flat.groups is not None  # a group of its own, as in data with groups
    assert flat.groups.tolist() == [""]
    items = [Item(text, "x", text.encode, group=group) for text, group in (("a b", "t"), ("c d", None))]
    texts = load(listed_items("mine", "text", items), extractor="ngrams")
    assert texts.groups is not None
    assert texts.groups.tolist() == ["t", ""]


def test_a_part_for_another_process_finds_its_groups_again(photos: Path) -> None:
    (photos / "cat" / "burst").mkdir()
    (photos / "cat" / "1.png").rename(photos / "cat" / "burst" / "1.png")
    stream = opened(photos, extractor="pixels", columns=Columns(group="folder"))
    (part,) = pickle.loads(pickle.dumps(stream.parts))  # noqa: S301
    groups = Batch.joined(list(part.batches())).groups
    assert groups is not None
    assert sorted(groups.tolist()) == ["", "", "", "cat/burst"]
