"""Parquet files: kinds of columns, row groups, and what is said about files that cannot be used."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from openworld.data.columns import Columns
from openworld.data.errors import DataError
from openworld.data.streams import open_stream


def read_samples(path: Path, label_column: str | None = None) -> SimpleNamespace:
    stream = open_stream(path, columns=Columns(label_column))
    batch = stream.read()
    return SimpleNamespace(
        X=batch.X,
        y=batch.y,
        feature_names=stream.feature_names,
        names=batch.names,
        extractor=stream.extractor,
    )


def parquet_file(tmp_path: Path, **columns: Any) -> Path:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def test_parquet_kinds_of_columns(tmp_path: Path) -> None:
    samples = read_samples(
        parquet_file(
            tmp_path,
            flag=[True, False],
            small=pa.array([1, 2], pa.int8()),
            label=pa.array(["a", "b"]).dictionary_encode(),
        )
    )
    assert samples.X.astype(int).tolist() == [[1, 1], [0, 2]]
    assert samples.y is not None
    assert samples.y.tolist() == ["a", "b"]
    fixed = pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2))
    assert read_samples(parquet_file(tmp_path, features=fixed)).X.tolist() == [[1, 2], [3, 4]]
    assert read_samples(parquet_file(tmp_path, features=[1.0, 2.0])).X.tolist() == [[1], [2]]


def test_parquet_in_several_row_groups(tmp_path: Path) -> None:
    path, X = tmp_path / "t.parquet", np.arange(20.0).reshape(10, 2)
    pq.write_table(pa.table({"features": X.tolist(), "label": list(range(10))}), path, row_group_size=3)
    samples = read_samples(path)
    assert np.array_equal(samples.X, X)
    assert samples.y is not None
    assert samples.y.tolist() == list(range(10))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"a": [1.0, 2.0], "label": ["x", None]}, "sample 2 has no label"),
        ({"a": [1.0, 2.0], "label": [None, 4]}, "sample 1 has no label"),
        ({"a": [1.0, None], "label": [1, 2]}, 'sample 2, column "a": the value is missing'),
        ({"a": ["u", "v"]}, "must be numbers"),
        ({"features": [[1.0], [2.0, 3.0, 4.0]]}, "sample 2 has a different number of features"),
        ({"features": [[1.0], None]}, "sample 2 has a different number of features"),
        ({"features": [["u"], ["v"]]}, "must be numbers"),
        ({"features": [[1.0, 2.0], [3.0, None]]}, "sample 2, feature number 2: the value is missing"),
        ({"label": [1, 2]}, "no feature columns"),
        ({"a": pa.array([], pa.float64())}, "no samples"),
    ],
)
def test_parquet_errors_name_the_file_and_the_place(
    tmp_path: Path, columns: dict[str, Any], words: str
) -> None:
    with pytest.raises(DataError) as raised:
        read_samples(parquet_file(tmp_path, **columns))
    assert words in str(raised.value)
    assert str(raised.value).count(str(tmp_path / "table.parquet")) == 1
