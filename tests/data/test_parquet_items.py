"""Pictures and texts in Parquet tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from openworld.data import parquet_items
from openworld.data.columns import Columns
from openworld.data.errors import DataError
from openworld.data.sources import Source, open_source


def stored(path: Path, columns: dict[str, Any], **more: Any) -> Source | None:
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    pq.write_table(table, path, **more)
    return open_source(path)


def content(source: Source | None) -> list[tuple[str, str | None, bytes]]:
    assert source is not None
    assert len(source) == len(list(source))
    return [(item.name, item.label, item.read()) for item in source]


def test_bytes(tmp_path: Path) -> None:
    source = stored(tmp_path / "p.parquet", {"id": [1, 2], "image": [b"one", None], "label": ["a", None]})
    assert source is not None
    assert source.kind == "image"
    assert content(source) == [("row 1", "a", b"one"), ("row 2", None, b"")]


def test_as_hugging_face_writes_it(tmp_path: Path) -> None:
    """Pictures are structs, and the names of numbered classes are in the header."""
    features = {"image": {"_type": "Image"}, "label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}
    picture = [{"bytes": b"one", "path": "1.png"}, {"bytes": b"two", "path": None}, None]
    table = pa.table({"image": picture, "label": [1, 0, -1]})
    table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    found = content(stored(tmp_path / "p.parquet", table))
    assert found == [("row 1 (1.png)", "dog", b"one"), ("row 2", "cat", b"two"), ("row 3", None, b"")]


def test_blanks_around_a_label_are_not_part_of_it(tmp_path: Path) -> None:
    source = stored(tmp_path / "t.parquet", {"text": ["a", "b", "c"], "label": [" opel", "opel", " "]})
    assert [label for _, label, _ in content(source)] == ["opel", "opel", None]


def test_texts(tmp_path: Path) -> None:
    source = stored(tmp_path / "t.parquet", {"text": ["a b", ""], "label": [3, 4], "note": ["x", "y"]})
    assert source is not None
    assert source.kind == "text"
    assert content(source) == [("a b", "3", b"a b"), ("row 2", "4", b"")]


def test_texts_and_numbers_need_a_word_from_the_user(tmp_path: Path) -> None:
    columns = {"text": ["a b", ""], "label": [3, 4], "length": [3, 0]}
    with pytest.raises(DataError, match=r"--text-column text .* or --feature-columns length"):
        stored(tmp_path / "t.parquet", columns)
    chosen = open_source(tmp_path / "t.parquet", columns=Columns(text="text"))
    assert content(chosen) == [("a b", "3", b"a b"), ("row 2", "4", b"")]
    assert open_source(tmp_path / "t.parquet", columns=Columns(features=("length",))) is None


def test_many_rows_come_in_batches(tmp_path: Path) -> None:
    values = [f"{i}".encode() for i in range(10)]
    stored(tmp_path / "p.parquet", {"bytes": values}, row_group_size=4)
    source = parquet_items.open_table(tmp_path / "p.parquet", Columns(), rows_at_once=3)
    assert [item[2] for item in content(source)] == values
    assert [item[0] for item in content(source)] == [f"row {i}" for i in range(1, 11)]


def test_vectors_stay_vectors(tmp_path: Path) -> None:
    assert stored(tmp_path / "v.parquet", {"features": [[1.0, 2.0]], "label": ["a"]}) is None
    assert stored(tmp_path / "w.parquet", {"a": [1.0], "b": [2], "label": ["a"]}) is None


def test_what_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(DataError, match=r"bad\.parquet: not a valid \.parquet file"):
        open_source(tmp_path / "bad.parquet")
    with pytest.raises(DataError, match="the file is empty"):
        stored(tmp_path / "e.parquet", pa.table({"text": pa.array([], pa.string())}))
    stored(tmp_path / "t.parquet", {"text": ["a"]})
    with pytest.raises(DataError, match='no column named "kind"'):
        open_source(tmp_path / "t.parquet", columns=Columns(label="kind"))


def test_groups(tmp_path: Path) -> None:
    columns = {"text": ["a b", "c", "d"], "label": [3, 4, 4], "template": [1, None, 1]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    source = open_source(tmp_path / "t.parquet", columns=Columns(group="template"))
    assert source is not None
    assert source.grouped
    assert [item.group for item in source] == ["1", None, "1"]
    assert source.notes == []  # the column is used
    pq.write_table(pa.table({"image": [b"one"], "burst": ["x"]}), tmp_path / "p.parquet")
    pictures = open_source(tmp_path / "p.parquet", columns=Columns(group="burst"))
    assert pictures is not None
    assert [item.group for item in pictures] == ["x"]
    with pytest.raises(DataError, match=r"Did you mean --group-column burst\?"):
        open_source(tmp_path / "p.parquet", columns=Columns(group="bursts"))
