"""Tables in text files, as programs of all kinds write them."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from openworld.data.columns import Columns
from openworld.data.delimited import ending_of, open_delimited
from openworld.data.errors import DataError
from openworld.data.streams import open_stream

TABLE = pd.DataFrame({"a": [1.5, 2.0, -3.25], "b": [4.0, 5.0, 6.0], "label": ["Müller", "Œuvre", "x"]})


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("packed", [False, True])
def test_delimiters_encodings_and_compression_are_found(
    tmp_path: Path, delimiter: str, encoding: str, packed: bool
) -> None:
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    content = TABLE.to_csv(index=False, sep=delimiter).encode(encoding)
    path.write_bytes(gzip.compress(content) if packed else content)
    stream = open_stream(path)
    batch = stream.read()
    assert np.array_equal(batch.X, TABLE[["a", "b"]].to_numpy())
    assert batch.y is not None
    assert batch.y.tolist() == TABLE["label"].tolist()
    assert stream.feature_names == ["a", "b"]
    assert [("Windows-1252" in note) for note in stream.notes] == ([True] if encoding == "cp1252" else [])


def test_decimal_commas_and_booleans(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a;b;label\n1,5;True;x\n-2,25;false;y\n")
    assert open_stream(tmp_path / "t.csv").read().X.tolist() == [[1.5, 1], [-2.25, 0]]


def test_lines_are_counted_as_an_editor_counts(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('a,label\n1,"two\nlines"\n\n2,x\noops,y\n')
    assert [line for line, _ in open_delimited(tmp_path / "t.csv").rows()] == [2, 5, 6]
    with pytest.raises(DataError, match=r'line 6, column "a": .oops. is not a number'):
        open_stream(tmp_path / "t.csv")


def test_a_damaged_archive(tmp_path: Path) -> None:
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,label\n" + b"1,x\n" * 5000)[:-20])
    with pytest.raises(DataError, match="cannot be decompressed"):
        open_stream(tmp_path / "t.csv.gz")


def test_endings() -> None:
    assert [ending_of(Path(name)) for name in ("a.CSV", "a.tsv.gz", "a.gz", "a")] == [".csv", ".tsv", "", ""]


def test_an_index_and_row_numbers_are_left_out(tmp_path: Path) -> None:
    many = pd.DataFrame({"n": range(1, 13), "a": np.linspace(0, 1, 12), "label": list("xy") * 6})
    many.to_csv(tmp_path / "t.csv")
    stream = open_stream(tmp_path / "t.csv")
    assert stream.feature_names == ["a"]
    assert 'ignored columns "", "n"' in stream.notes[0]
    wanted = open_stream(tmp_path / "t.csv", columns=Columns(features=("n", "a")))
    assert wanted.feature_names == ["n", "a"]
    many.to_parquet(tmp_path / "t.parquet", index=True)
    frame = many.set_index(pd.Index(range(5, 17), name="__index_level_0__"))
    frame.to_parquet(tmp_path / "t.parquet")
    assert open_stream(tmp_path / "t.parquet").feature_names == ["n", "a"]
