"""Missing values are refused, left out or filled in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from openworld.data.columns import Columns
from openworld.data.errors import DataError
from openworld.data.streams import open_stream


@pytest.fixture(params=["csv", "parquet", "npz"])
def table(request: Any, tmp_path: Path) -> Path:
    """Four samples, of which the second and the third have a missing value."""
    X = np.array([[1, 10], [np.nan, 20], [3, np.nan], [5, 60]])
    path = tmp_path / f"t.{request.param}"
    if request.param == "csv":
        path.write_text("a,b,label\n1,10,x\n,20,x\n3,NA,y\n5,60,y\n")
    elif request.param == "parquet":
        pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "label": list("xxyy")}), path, row_group_size=2)
    else:
        np.savez(path, X=X, y=np.array(list("xxyy")))
    return path


def test_refused_with_the_place(table: Path) -> None:
    with pytest.raises(DataError, match=r"(line 3|sample 2), .*the value is missing. Use --missing drop"):
        open_stream(table).read()


def test_left_out(table: Path) -> None:
    batch = open_stream(table, columns=Columns(missing="drop")).read()
    assert batch.X.tolist() == [[1, 10], [5, 60]]
    assert batch.y is not None
    assert batch.y.tolist() == ["x", "y"]
    assert batch.rows.tolist() == [0, 3]


def test_filled_in(table: Path) -> None:
    assert open_stream(table, columns=Columns(missing="mean")).read().X.tolist() == [
        [1, 10],
        [3, 20],
        [3, 30],
        [5, 60],
    ]
    given = open_stream(table, columns=Columns(missing="mean", means=(7.0, 8.0))).read()
    assert given.X.tolist() == [[1, 10], [7, 20], [3, 8], [5, 60]]


def test_a_column_without_values_cannot_be_filled_in(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,label\n1,,x\n2,,y\n")
    with pytest.raises(DataError, match='column "b" has no values at all'):
        open_stream(tmp_path / "t.csv", columns=Columns(missing="mean"))
    with pytest.raises(DataError, match="--missing drop leaves none"):
        open_stream(tmp_path / "t.csv", columns=Columns(missing="drop"))


def test_infinite_values_are_never_filled_in(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,label\n1,x\ninf,y\n")
    with pytest.raises(DataError, match=r'line 3, column "a": inf is not a finite number'):
        open_stream(tmp_path / "t.csv", columns=Columns(missing="mean"))
