"""How streams look into and read each kind of file: Parquet, Arrow, `.npy`."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from openworld.data.npy_header import read_header
from openworld.data.tables import DataError, _as_labels, _from_lists, _split_columns

_COLUMN_BUFFER = 1 << 18  # of each column of a Parquet file, in place of the whole row group
Labels = NDArray[Any]
Piece = tuple[NDArray[Any], Labels | None]


@dataclass(frozen=True)
class Look:
    """What a file says about itself: size of a sample, column of labels, where it can be cut, who made it."""

    n_features: int
    row_bytes: int
    label: str | None
    ends: Sequence[int]
    extractor: dict[str, str] | None = None


class Format(Protocol):
    """A kind of file. Rows are those from `start` to `stop`, where the file can be cut."""

    def look(self, path: str, label_column: str | None) -> Look:
        """Read what the file says about itself."""
        ...

    def read(self, path: str, start: int, stop: int, label: str | None, n_rows: int) -> Iterator[Piece]:
        """Read samples, at most `n_rows` at a time."""
        ...

    def read_rows(self, path: str, rows: NDArray[np.intp]) -> NDArray[Any] | None:
        """Read the features of some rows, or None where that takes as long as reading all."""
        ...

    def read_labels(self, path: str, start: int, stop: int, label: str) -> Labels:
        """Read the labels alone."""
        ...


def format_of(path: str) -> Format:
    """Return how a file is read; its ending says what it is."""
    ending = PurePosixPath(path).suffix.lower()
    if ending == ".parquet":
        return _Table(_ParquetFile)
    if ending in (".arrow", ".feather", ".ipc"):
        return _Table(_ArrowFile)
    if ending == ".npy":
        return _Npy()
    raise DataError(f"{path}: only .parquet, .arrow, .feather, .ipc and .npy files are read as a stream.")


def open_file(path: str) -> IO[bytes]:
    """Open a file, here or at an address, for reading from any place in it."""
    if "://" in path:
        opened: IO[bytes] = fsspec().open(path, "rb").open()
        return opened
    if not Path(path).exists():
        raise FileNotFoundError(f"{path}: there is no such file.")
    return open(path, "rb")


def fsspec() -> Any:
    """Return the library that opens addresses."""
    try:
        import fsspec as library  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError("Reading from an address needs fsspec: pip install openworld[scale]") from error
    return library


# -- tables -------------------------------------------------------------------------------------------


@contextmanager
def _closed_on_error(opened: Any) -> Iterator[None]:
    try:
        yield
    except BaseException:
        opened.close()
        raise


class _ParquetFile:
    """Record batches of a Parquet file; it can be cut between row groups."""

    def __init__(self, path: str) -> None:
        import pyarrow.parquet as pq

        self.opened = open_file(path)
        with _closed_on_error(self.opened):
            self.file = pq.ParquetFile(self.opened, pre_buffer=False, buffer_size=_COLUMN_BUFFER)
        self.schema = self.file.schema_arrow
        sizes = [self.file.metadata.row_group(i).num_rows for i in range(self.file.num_row_groups)]
        self.ends = np.cumsum(sizes, dtype=int).tolist()

    def batches(self, start: int, stop: int, columns: list[str], n_rows: int) -> Iterator[Any]:
        groups = [i for i, end in enumerate(self.ends) if start < end <= stop]
        yield from self.file.iter_batches(n_rows, row_groups=groups, columns=columns)


class _ArrowFile:
    """Record batches of an Arrow file, mapped where it is a local one; it can be cut between them."""

    def __init__(self, path: str) -> None:
        import pyarrow as pa

        self.opened = pa.memory_map(path) if os.path.exists(path) else open_file(path)
        with _closed_on_error(self.opened):
            self.file = pa.ipc.open_file(self.opened)
        self.schema = self.file.schema
        sizes = [self.file.get_batch(i).num_rows for i in range(self.file.num_record_batches)]
        self.ends = np.cumsum(sizes, dtype=int).tolist()

    def batches(self, start: int, stop: int, columns: list[str], n_rows: int) -> Iterator[Any]:
        for i in [i for i, end in enumerate(self.ends) if start < end <= stop]:
            whole = self.file.get_batch(i).select(columns)
            for first in range(0, whole.num_rows, n_rows):
                yield whole.slice(first, n_rows)


class _Table:
    """Files of named columns."""

    def __init__(self, kind: type[_ParquetFile] | type[_ArrowFile]) -> None:
        self.kind = kind

    def look(self, path: str, label_column: str | None) -> Look:
        """Read the header and one sample."""
        with self._open(path, path) as table:
            features, label = _split_columns(Path(path), table.schema.names, label_column)
            if not table.ends:
                return Look(len(features), 1, label, [])
            first = next(table.batches(0, table.ends[-1], features, 1))
            X = _features(path, first)
            made_by = json.loads((table.schema.metadata or {}).get(b"openworld.extractor", b"null"))
            return Look(X.shape[1], X.shape[1] * X.itemsize, label, table.ends, made_by)

    def read(self, path: str, start: int, stop: int, label: str | None, n_rows: int) -> Iterator[Piece]:
        """Read samples, at most `n_rows` at a time."""
        with self._open(path, _place(path, start, stop)) as table:
            for batch in table.batches(start, stop, table.schema.names, n_rows):
                if label is None:
                    yield _features(path, batch), None
                    continue
                column = batch[label]
                features = batch.select([name for name in batch.schema.names if name != label])
                yield _features(path, features), _labels(path, column)

    def read_rows(self, path: str, rows: NDArray[np.intp]) -> None:
        """Read nothing: rows are found only by reading all before them."""

    def read_labels(self, path: str, start: int, stop: int, label: str) -> Labels:
        """Read the labels alone."""
        with self._open(path, _place(path, start, stop)) as table:
            found = [_labels(path, batch[label]) for batch in table.batches(start, stop, [label], 1 << 16)]
        return np.concatenate(found)

    @contextmanager
    def _open(self, path: str, place: str) -> Iterator[Any]:
        """Open the file; what pyarrow finds wrong with it is told with the place."""
        try:
            import pyarrow as pa
        except ImportError as error:
            raise ImportError(f"Reading {path} needs pyarrow: pip install openworld[scale]") from error
        opened = None
        try:
            opened = self.kind(path)
            yield opened
        except (DataError, FileNotFoundError):
            raise
        except (pa.ArrowException, OSError, EOFError) as error:
            raise DataError(f"{place}: not a sound file of its kind ({error}).") from error
        finally:
            if opened is not None:
                opened.opened.close()


def _features(path: str, batch: Any) -> NDArray[Any]:
    """Return a record batch without labels as a table of numbers."""
    import pyarrow as pa

    if batch.schema.names == ["features"] and pa.types.is_nested(batch.schema.field(0).type):
        return _from_lists(Path(path), batch.column(0))
    try:
        return np.asarray(batch.to_tensor(null_to_nan=True, row_major=True))
    except (pa.ArrowException, TypeError) as error:
        raise DataError(f"{path}: the feature columns must hold numbers ({error}).") from error


def _labels(path: str, column: Any) -> Labels:
    """Return integers and booleans as they are and everything else as text."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    missing = column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    if missing.any():
        return _as_labels(Path(path), np.empty(0), missing)  # which says where
    values: Labels = column.to_numpy(zero_copy_only=False)
    return values if values.dtype.kind in "iub" else values.astype(str)


# -- arrays -------------------------------------------------------------------------------------------


class _Npy:
    """The features as one array; the labels of `x.npy` are in `x.labels.npy`. It can be cut anywhere."""

    def look(self, path: str, label_column: str | None) -> Look:
        """Read the headers."""
        with open_file(path) as file:
            shape, dtype, _ = _header(path, file)
        if len(shape) != 2 or dtype.kind not in "fiub":
            raise DataError(f"{path}: the features must be a table of numbers, not {dtype} of shape {shape}.")
        label = str(PurePosixPath(path).with_suffix("")) + ".labels.npy"
        if "://" in path:
            label = path.removesuffix(".npy") + ".labels.npy"
        try:
            with open_file(label) as file:
                n_labels = _header(label, file)[0]
        except FileNotFoundError:
            return Look(shape[1], shape[1] * dtype.itemsize, None, range(1, shape[0] + 1))
        if n_labels != shape[:1]:
            raise DataError(f"{path}: {shape[0]:,} samples but labels of shape {n_labels} in {label}.")
        return Look(shape[1], shape[1] * dtype.itemsize, label, range(1, shape[0] + 1))

    def read(self, path: str, start: int, stop: int, label: str | None, n_rows: int) -> Iterator[Piece]:
        """Read samples, at most `n_rows` at a time."""
        labels = None if label is None else self.read_labels(path, start, stop, label)
        with open_file(path) as file:
            header = _header(path, file)
            for first in range(start, stop, n_rows):
                last = min(first + n_rows, stop)
                X = _rows(path, file, header, first, last)
                yield X, None if labels is None else labels[first - start : last - start]

    def read_rows(self, path: str, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Read the features of some rows."""
        with open_file(path) as file:
            header = _header(path, file)
            found = [_rows(path, file, header, row, row + 1) for row in rows.tolist()]
        return np.concatenate([np.empty((0, *header[0][1:]), header[1]), *found])

    def read_labels(self, path: str, start: int, stop: int, label: str) -> Labels:
        """Read the labels alone."""
        with open_file(label) as file:
            return _rows(label, file, _header(label, file), start, stop)


_Header = tuple[tuple[int, ...], np.dtype[Any], int]


def _header(path: str, file: IO[bytes]) -> _Header:
    """Return shape, type and where the numbers begin."""
    try:
        shape, is_fortran, dtype = read_header(file)
    except (ValueError, EOFError) as error:
        raise DataError(f"{path}: not a sound .npy file ({error}).") from error
    if dtype.hasobject or (is_fortran and len(shape) > 1):
        raise DataError(
            f"{path}: save it in C order and without objects: np.save(path, np.ascontiguousarray(X))."
        )
    start = file.tell()
    promised, there = math.prod(shape) * dtype.itemsize, file.seek(0, os.SEEK_END) - start
    if promised > there:  # found here, before anything is planned or reserved for rows that do not exist
        raise DataError(
            f"{path}: the file was cut short, or its header is wrong: an array of shape {shape} takes "
            f"{promised:,} bytes, and there are {there:,}."
        )
    return shape, dtype, start


def _rows(path: str, file: IO[bytes], header: _Header, start: int, stop: int) -> NDArray[Any]:
    (_, *rest), dtype, offset = header
    row_bytes = dtype.itemsize * int(np.prod(rest, dtype=int))
    file.seek(offset + start * row_bytes)
    rows = np.empty((stop - start, *rest), dtype)
    view: Any = memoryview(rows)  # type: ignore[arg-type]
    n_read = file.readinto(view.cast("B")) if rows.size else 0  # type: ignore[attr-defined]
    if n_read < rows.nbytes:
        raise DataError(f"{_place(path, start, stop)}: the file ends before them; it was cut short.")
    return rows


def _place(path: str, start: int, stop: int) -> str:
    return f"{path}, samples {start + 1:,} to {stop:,}"
