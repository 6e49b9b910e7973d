"""Streams give back exactly what the files hold, in bounded batches, from any address."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openworld.data.errors import DataError
from openworld.data.stream import Stream
from openworld.data.streams import _runs, open_stream

N, D = 103, 4


@pytest.fixture
def X() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((N, D)).astype(np.float32)


@pytest.fixture
def y() -> np.ndarray:
    return np.array([f"class {i % 7}" for i in range(N)])


def wide(X: np.ndarray, y: np.ndarray) -> pa.Table:
    return pa.table({"f0": X[:, 0], "f1": X[:, 1], "label": y, "f2": X[:, 2], "f3": X[:, 3]})


def lists(X: np.ndarray, y: np.ndarray) -> pa.Table:
    return pa.table({"features": X.tolist(), "label": y}).cast(
        pa.schema({"features": pa.list_(pa.float32()), "label": pa.string()})
    )


def write(path: Path, X: np.ndarray, y: np.ndarray) -> Path:
    """Write a file of the kind its name says."""
    if path.suffix == ".npy":
        np.save(path, X)
        np.save(path.with_suffix(".labels.npy"), y)
    elif path.suffix == ".parquet":
        pq.write_table((lists if "lists" in path.name else wide)(X, y), path, row_group_size=20)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, wide(X, y).schema) as writer:
            writer.write_table(wide(X, y), max_chunksize=20)
    return path


def whole(stream: Stream) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    batches = list(stream.batches())
    return tuple(np.concatenate([getattr(batch, name) for batch in batches]) for name in ("X", "y", "rows"))


KINDS = ("wide.parquet", "lists.parquet", "x.arrow", "x.npy")


@pytest.mark.parametrize("name", KINDS)
def test_a_stream_is_the_file(tmp_path: Path, X: np.ndarray, y: np.ndarray, name: str) -> None:
    stream = open_stream(write(tmp_path / name, X, y), batch_bytes=9 * 4 * D, part_bytes=45 * 4 * D)
    found_X, found_y, rows = whole(stream)
    assert np.array_equal(found_X, X)
    assert np.array_equal(found_y, y)
    assert np.array_equal(rows, np.arange(N))
    assert (len(stream), stream.n_features, stream.labeled) == (N, D, True)
    assert len(stream.parts) == 3
    assert max(len(batch.X) for batch in stream.batches()) <= 9
    assert np.array_equal(np.concatenate([part.labels() for part in stream.parts]), y)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("address", ["memory://bucket/{}", "file://{}"])
def test_any_address_that_fsspec_opens(
    tmp_path: Path, X: np.ndarray, y: np.ndarray, name: str, address: str
) -> None:
    path = write(tmp_path / name, X, y)
    target = address.format(name if "memory" in address else tmp_path / name)
    if "memory" in address:
        for file in tmp_path.iterdir():
            with fsspec.open(f"memory://bucket/{file.name}", "wb") as copy:
                copy.write(file.read_bytes())
    stream = open_stream(target, part_bytes=45 * 4 * D)
    for found, expected in zip(whole(stream), whole(open_stream(path)), strict=True):
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("few", [0.0, 0.5])
def test_some_samples_of_a_part(
    tmp_path: Path,
    X: np.ndarray,
    y: np.ndarray,
    name: str,
    share: float,
    few: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("openworld.data.streams._FEW", few)
    stream = open_stream(write(tmp_path / name, X, y), batch_bytes=9 * 4 * D, part_bytes=45 * 4 * D)
    for part in stream.parts:
        wanted = np.random.default_rng(part.start).random(len(part)) < share
        found = list(part.select(wanted))
        rows = part.start + np.flatnonzero(wanted)
        assert np.array_equal(np.concatenate([batch.X for batch in found]), X[rows])
        assert np.array_equal(np.concatenate([batch.y for batch in found]), y[rows])
        assert np.array_equal(np.concatenate([batch.rows for batch in found]), rows)


def test_some_samples_of_an_array_are_all_that_is_read(
    tmp_path: Path, X: np.ndarray, y: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openworld.data.streams._FEW", 0.5)
    X[61, 2] = np.nan
    (part,) = open_stream(write(tmp_path / "x.npy", X, y)).parts
    wanted = np.zeros(N, dtype=bool)
    wanted[[3, 70]] = True
    (batch,) = part.select(wanted)
    assert np.array_equal(batch.X, X[[3, 70]])
    wanted[61] = True
    with pytest.raises(DataError, match=r"sample 62, .*: the value is missing"):
        list(part.select(wanted))


def test_an_array_in_fortran_order(tmp_path: Path, X: np.ndarray, y: np.ndarray) -> None:
    write(tmp_path / "x.npy", np.asfortranarray(X), y)
    found = whole(open_stream(tmp_path / "x.npy", batch_bytes=9 * 4 * D, part_bytes=45 * 4 * D))
    assert np.array_equal(found[0], X)
    assert np.array_equal(found[1], y)
    with pytest.raises(DataError, match="in C order"):
        whole(open_stream(f"file://{tmp_path}/x.npy"))


@pytest.mark.parametrize("remote", [False, True])
def test_several_files_are_one_stream(tmp_path: Path, X: np.ndarray, y: np.ndarray, remote: bool) -> None:
    write(tmp_path / "part-1.parquet", X[:50], y[:50])
    write(tmp_path / "part-2.parquet", X[50:], y[50:])
    pattern = f"{'file://' if remote else ''}{tmp_path}/part-*.parquet"
    found_X, found_y, rows = whole(open_stream(pattern))
    assert np.array_equal(found_X, X)
    assert np.array_equal(found_y, y)
    assert np.array_equal(rows, np.arange(N))


def test_labels_that_are_numbers_throughout_are_numbers(tmp_path: Path, X: np.ndarray) -> None:
    numbers = np.array([str(i % 5) for i in range(N)], dtype="U3")
    stream = open_stream(write(tmp_path / "wide.parquet", X, numbers))
    assert whole(stream)[1].tolist() == [i % 5 for i in range(N)]
    numbers[-1] = "007"  # far from the first batch: all stay text, as in read_samples
    stream = open_stream(write(tmp_path / "wide.parquet", X, numbers), part_bytes=20 * 4 * D)
    assert whole(stream)[1].tolist() == numbers.tolist()


def test_one_label_for_all(tmp_path: Path, X: np.ndarray, y: np.ndarray) -> None:
    stream = open_stream(write(tmp_path / "x.npy", X, y), label="okapi")
    assert set(whole(stream)[1].tolist()) == {"okapi"}
    assert set(stream.parts[0].labels().tolist()) == {"okapi"}


def test_without_labels(tmp_path: Path, X: np.ndarray) -> None:
    np.save(tmp_path / "x.npy", X)
    stream = open_stream(tmp_path / "x.npy")
    assert not stream.labeled
    assert next(stream.batches()).y is None
    with pytest.raises(DataError, match="no labels"):
        stream.parts[0].labels()


@pytest.mark.parametrize("name", ["wide.parquet", "x.arrow", "x.npy"])
def test_a_number_that_is_not_finite_is_found(
    tmp_path: Path, X: np.ndarray, y: np.ndarray, name: str
) -> None:
    X[61, 2] = np.nan
    stream = open_stream(write(tmp_path / name, X, y), batch_bytes=9 * 4 * D, part_bytes=45 * 4 * D)
    with pytest.raises(DataError, match=rf"{name}, samples 4\d to [89]\d: sample 62, .* is missing"):
        list(stream.batches())


def test_large_numbers_are_not_taken_for_infinite(tmp_path: Path, y: np.ndarray) -> None:
    X = np.full((N, D), 3e38, dtype=np.float32)  # their sum overflows
    assert np.array_equal(whole(open_stream(write(tmp_path / "x.npy", X, y)))[0], X)


@pytest.mark.parametrize("name", KINDS)
def test_a_file_that_was_cut_short(tmp_path: Path, X: np.ndarray, y: np.ndarray, name: str) -> None:
    path = write(tmp_path / name, X, y)
    path.write_bytes(path.read_bytes()[: 3 * path.stat().st_size // 4])
    with pytest.raises(DataError, match=name):
        list(open_stream(path).batches())


@pytest.mark.parametrize("name", ["x.npy", "x.labels.npy"])
def test_a_header_that_promises_more_than_there_is(
    tmp_path: Path, X: np.ndarray, y: np.ndarray, name: str
) -> None:
    write(tmp_path / "x.npy", X, y)
    there = (tmp_path / name).read_bytes()
    promised = there.replace(b"(103,", b"(1000000000000,", 1).replace(b" " * 10, b"", 1)
    (tmp_path / name).write_bytes(promised)
    assert len(promised) == len(there)
    with pytest.raises(DataError, match=rf"{name}: .* shape \(1000000000000,.* the file has"):
        open_stream(tmp_path / "x.npy")


def test_what_cannot_be_a_stream(tmp_path: Path, X: np.ndarray, y: np.ndarray) -> None:
    with pytest.raises(DataError, match=r"cannot read \.mat\. Feature vectors can be in \.csv"):
        open_stream(tmp_path / "x.mat")
    with pytest.raises(DataError, match=r"a spreadsheet\. Save the sheet as CSV"):
        open_stream(tmp_path / "x.xlsx")
    with pytest.raises(FileNotFoundError, match=r"x\.npy"):
        open_stream(tmp_path / "x.npy")
    with pytest.raises(FileNotFoundError, match="no file matches"):
        open_stream(f"{tmp_path}/*.parquet")
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "x.labels.npy", y[:-1])
    with pytest.raises(DataError, match="103 samples but labels"):
        open_stream(tmp_path / "x.npy")
    pq.write_table(wide(X, y).drop_columns("f0"), tmp_path / "b.parquet")
    write(tmp_path / "a.parquet", X, y)
    with pytest.raises(DataError, match=r"b.parquet has 3 features, but .*a.parquet has 4"):
        open_stream(f"{tmp_path}/*.parquet")
    pq.write_table(wide(X, y).drop_columns("label"), tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"b.parquet has no labels"):
        open_stream(f"{tmp_path}/*.parquet")


def test_a_missing_label_is_reported(tmp_path: Path, X: np.ndarray, y: np.ndarray) -> None:
    table = wide(X, y).set_column(2, "label", pa.array([*y[:-1].tolist(), None]))
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(DataError, match="has no label"):
        list(open_stream(tmp_path / "a.parquet").batches())


@given(st.lists(st.integers(1, 50), min_size=1), st.integers(1, 100))
def test_runs_cover_all_rows_and_keep_to_the_size(sizes: list[int], rows: int) -> None:
    ends = np.cumsum(sizes).tolist()
    runs = list(_runs(ends, rows))
    assert [start for start, _ in runs] == [0, *(stop for _, stop in runs[:-1])]
    assert runs[-1][1] == ends[-1]
    assert all(stop in ends for _, stop in runs)
    assert all(stop - start <= max(rows, max(sizes)) for start, stop in runs)
    for (start, stop), (_, after) in pairwise(runs):
        following = min(end for end in ends if end > stop)
        assert following - start > rows  # not one piece more would have fitted
        assert following <= after
