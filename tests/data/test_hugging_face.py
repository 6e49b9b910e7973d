"""Hugging Face data sets, by a stand-in that has their columns and features."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as PILImage

from openworld.data.columns import Columns
from openworld.data.errors import DataError
from openworld.data.hugging_face import from_hugging_face
from openworld.data.sources import as_source


@dataclass
class Image:
    decode: bool = True


@dataclass
class Value:
    dtype: str


@dataclass
class ClassLabel:
    names: list[str]
    dtype: str = "int64"


@dataclass
class StandIn:
    features: Any
    rows: list[dict[str, Any]]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)


class Castable(StandIn):
    """Has its pictures as files, and decodes them unless it is asked not to."""

    def cast_column(self, column: str, feature: Image) -> StandIn:
        assert not feature.decode
        return StandIn({**self.features, column: feature}, self.rows)


def test_decoded_pictures() -> None:
    picture = PILImage.new("CMYK", (3, 2), (10, 20, 30, 40))
    dataset = StandIn(
        {"label": ClassLabel(["cat", "dog"]), "image": Image()}, [{"image": picture, "label": 1}]
    )
    source = as_source(dataset)
    assert source is not None
    assert source.kind == "image"
    (item,) = source
    assert (item.name, item.label) == ("row 1", "dog")
    with PILImage.open(io.BytesIO(item.read())) as read:
        assert read.mode == "CMYK"
        assert read.size == (3, 2)
        assert read.getpixel((0, 0)) == (10, 20, 30, 40)


def test_files_are_not_decoded_where_that_can_be_asked_for(tmp_path: Path) -> None:
    (tmp_path / "2.png").write_bytes(b"two")
    rows = [
        {"image": {"bytes": b"one", "path": "1.png"}},
        {"image": {"bytes": None, "path": str(tmp_path / "2.png")}},
        {"image": None},
    ]
    source = from_hugging_face(Castable({"image": Image()}, rows))
    first, second, third = source
    assert not source.labeled
    assert (first.name, first.read(), second.read()) == ("row 1 (1.png)", b"one", b"two")
    with pytest.raises(DataError, match="neither a picture nor a path"):
        third.read()


def test_texts() -> None:
    rows = [{"id": "7", "text": "what now", "intent": "ask"}, {"id": "8", "text": None, "intent": None}]
    features = {"id": Value("string"), "text": Value("string"), "intent": Value("string")}
    source = from_hugging_face(StandIn(features, rows), columns=Columns(label="intent"))
    assert source.kind == "text"
    assert [(item.name, item.label, item.read()) for item in source] == [
        ("what now", "ask", b"what now"),
        ("row 2", None, b""),
    ]
    only = StandIn({"utterance": Value("string"), "label": Value("int64")}, [{"utterance": "hi", "label": 3}])
    assert [(item.name, item.label) for item in from_hugging_face(only)] == [("hi", "3")]


def test_numbered_classes_go_by_their_names() -> None:
    features = {"text": Value("string"), "label": ClassLabel(["cat", "dog"])}
    rows = [{"text": "a", "label": label} for label in (1, 0, -1, None)]
    assert [item.label for item in from_hugging_face(StandIn(features, rows))] == ["dog", "cat", None, None]


def test_what_cannot_be_used() -> None:
    class Streamed:
        features = {"text": Value("string")}

    for dataset, words in [
        (Streamed(), "without streaming"),
        (StandIn(None, []), "does not describe its columns"),
        (
            StandIn({"a": Value("int64"), "b": Value("float32")}, []),
            "no column of pictures or texts; it has a, b",
        ),
    ]:
        with pytest.raises(DataError, match=words):
            from_hugging_face(dataset)
    with pytest.raises(DataError, match=r"several splits \(train, test\)\. Give one"):
        as_source({"train": StandIn({}, []), "test": StandIn({}, [])})


def test_groups() -> None:
    features = {"utterance": Value("string"), "label": Value("int64"), "template": Value("string")}
    rows = [{"utterance": "hi", "label": 3, "template": name} for name in ("x", "x", None)]
    source = from_hugging_face(StandIn(features, rows), columns=Columns(group="template"))
    assert source.grouped
    assert [item.group for item in source] == ["x", "x", None]
    with pytest.raises(
        DataError, match=r"The data set has no column .* Did you mean --group-column template\?"
    ):
        from_hugging_face(StandIn(features, rows), columns=Columns(group="templates"))
    picture = {"image": {"bytes": b"one", "path": None}, "burst": 4}
    dataset = StandIn({"image": Image(), "burst": Value("int64")}, [picture])
    assert [item.group for item in from_hugging_face(dataset, columns=Columns(group="burst"))] == ["4"]
