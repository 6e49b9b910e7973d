"""File formats that are read in parts: Parquet, Arrow, `.npy`."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from openworld.data.columns import ENCODE, Columns, Roles, listed
from openworld.data.errors import DataError, no_such_file
from openworld.data.npy_header import read_header
from openworld.data.values import as_groups, as_labels

_COLUMN_BUFFER = 1 << 18  # read buffer per column of a Parquet file, instead of the whole row group
Labels = NDArray[Any]


@dataclass(frozen=True)
class FileInfo:
    """Metadata of a file of vectors.

    Attributes
    ----------
    n_features, row_bytes : int
        Number of features of a sample, and its size in bytes.
    ends : sequence of int
        The rows after which the file can be split.
    roles : Roles
        The roles of the columns. An array has no columns; its label "column" is the file with the labels.
    extractor : dict of str or None
        The id of the feature extractor.
    """

    n_features: int
    row_bytes: int
    ends: Sequence[int]
    roles: Roles
    extractor: dict[str, str] | None = None

    @property
    def feature_names(self) -> list[str] | None:
        """The feature columns; None if the features are one column of lists or an array."""
        return self.roles.features if len(self.roles.features) == self.n_features else None


class Piece(NamedTuple):
    """Samples read from a file, before missing values are handled."""

    X: NDArray[Any]
    y: Labels | None
    ids: list[Any] | None = None
    groups: NDArray[Any] | None = None


class Format(Protocol):
    """A file format. `start` and `stop` are rows at which the file can be split."""

    def inspect(self, path: str, columns: Columns) -> FileInfo:
        """Read the metadata of a file."""
        ...

    def read(self, path: str, start: int, stop: int, roles: Roles, n_rows: int) -> Iterator[Piece]:
        """Read samples, at most `n_rows` at a time."""
        ...

    def read_rows(self, path: str, rows: NDArray[np.intp]) -> NDArray[Any] | None:
        """Read the features of the given rows; None if that is no faster than reading all rows."""
        ...

    def read_labels(self, path: str, start: int, stop: int, label: str) -> Labels:
        """Read the labels alone."""
        ...


def format_of(path: str) -> Format:
    """Return the format of a file, by its extension."""
    ending = PurePosixPath(path).suffix.lower()
    if ending == ".parquet":
        return _Table(_ParquetFile)
    if ending in (".arrow", ".feather", ".ipc"):
        return _Table(_ArrowFile)
    if ending == ".npy":
        return _Npy()
    if ending in (".xlsx", ".xls", ".ods"):
        raise DataError(f"{path} is a spreadsheet. Save the sheet as CSV (UTF-8) and use that file.")
    if ending == ".ow":
        raise DataError(f"{path} is a model file, but data is needed. Is the order of the arguments right?")
    raise DataError(
        f"{path}: cannot read {ending or 'a file without extension'}. Feature vectors can be in .csv, .tsv, "
        ".npz, .npy, .parquet, .arrow, .feather or .ipc files."
    )


def open_file(path: str) -> IO[bytes]:
    """Open a local file or a URL for random access."""
    if "://" in path:
        opened: IO[bytes] = fsspec().open(path, "rb").open()
        return opened
    if not Path(path).exists():
        raise no_such_file(path)
    return open(path, "rb")


def fsspec() -> Any:
    """Import fsspec, which opens URLs."""
    try:
        import fsspec as library  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError("Reading from a URL needs fsspec: pip install openworld[scale]") from error
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
    """Record batches of a Parquet file, which can be split between row groups."""

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
    """Record batches of an Arrow file, memory-mapped if it is local. It can be split between batches."""

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
    """Formats with named columns."""

    def __init__(self, kind: type[_ParquetFile] | type[_ArrowFile]) -> None:
        self.kind = kind

    def inspect(self, path: str, columns: Columns) -> FileInfo:
        """Read the header and one sample."""
        with self._open(path, path) as table:
            roles = _roles(path, table.schema, columns)
            if not table.ends or not table.ends[-1]:
                return FileInfo(len(roles.features), 1, [], roles)
            first = next(table.batches(0, table.ends[-1], roles.features, 1))
            X = _features(path, first, roles)
            made_by = json.loads((table.schema.metadata or {}).get(b"openworld.extractor", b"null"))
            return FileInfo(X.shape[1], X.shape[1] * X.itemsize, table.ends, roles, made_by)

    def read(self, path: str, start: int, stop: int, roles: Roles, n_rows: int) -> Iterator[Piece]:
        """Read samples, at most `n_rows` at a time."""
        others = (roles.label, roles.id, roles.group)
        wanted = [*roles.features, *(name for name in others if name is not None)]
        with self._open(path, _place(path, start, stop)) as table:
            for batch in table.batches(start, stop, list(dict.fromkeys(wanted)), n_rows):
                y = None if roles.label is None else _labels(path, batch[roles.label])
                ids = None if roles.id is None else batch[roles.id].to_pylist()
                groups = None if roles.group is None else as_groups(batch[roles.group].to_pylist())
                yield Piece(_features(path, batch, roles), y, ids, groups)

    def read_rows(self, path: str, rows: NDArray[np.intp]) -> None:
        """Return None: a row can be read only together with all rows before it."""

    def read_labels(self, path: str, start: int, stop: int, label: str) -> Labels:
        """Read the labels alone."""
        with self._open(path, _place(path, start, stop)) as table:
            found = [_labels(path, batch[label]) for batch in table.batches(start, stop, [label], 1 << 16)]
        return np.concatenate(found)

    @contextmanager
    def _open(self, path: str, place: str) -> Iterator[Any]:
        """Open the file; errors of pyarrow name the place."""
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
            raise DataError(f"{place}: not a valid file of its format ({error}).") from error
        finally:
            if opened is not None:
                opened.opened.close()


def _roles(path: str, schema: Any, columns: Columns) -> Roles:
    """Assign roles to the columns; a column that is not numeric cannot be a feature."""
    import pyarrow.types as types

    roles = columns.roles(path, schema.names)
    if _is_lists(schema, roles):
        return roles
    for name in roles.features:
        kind = schema.field(name).type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            dated = types.is_temporal(kind)
            option = (
                f'If "{name}" is the label, use --label-column {name}.'
                if roles.label is None and not dated
                else "Name the columns to use with --feature-columns."
            )
            raise DataError(
                f'{path}: column "{name}" holds {"dates or times" if dated else kind}, but features must be '
                f"numbers. {listed(schema.names)} {option}{'' if dated else f' {ENCODE}'}"
            )
    return roles


def _is_lists(schema: Any, roles: Roles) -> bool:
    import pyarrow.types as types

    return roles.features == ["features"] and bool(types.is_nested(schema.field("features").type))


def _features(path: str, batch: Any, roles: Roles) -> NDArray[Any]:
    """Return the feature columns of a record batch as an array."""
    import pyarrow as pa

    if _is_lists(batch.schema, roles):
        return _from_lists(path, batch["features"])
    try:
        return np.asarray(batch.select(roles.features).to_tensor(null_to_nan=True, row_major=True))
    except (pa.ArrowException, TypeError):
        # pyarrow makes no tensor of booleans or of integers with missing values.
        columns = [batch[name] for name in roles.features]
        whole = [one.cast(pa.int8()) if pa.types.is_boolean(one.type) else one for one in columns]
        return np.column_stack([one.cast(pa.float64(), safe=False).to_numpy(False) for one in whole])


def _from_lists(path: str, lists: Any) -> NDArray[Any]:
    """Return a column of lists as an array; the lists must have the same length."""
    from pyarrow.compute import list_value_length

    lengths = list_value_length(lists).to_numpy(zero_copy_only=False)  # a missing list has length NaN
    if len(strange := np.flatnonzero(lengths != lengths[:1])):
        raise DataError(f"{path}: sample {strange[0] + 1} has a different number of features than the first.")
    return np.asarray(lists.flatten()).reshape(len(lists), -1)


def _labels(path: str, column: Any) -> Labels:
    """Return labels: integers and booleans unchanged, everything else as text without blanks around it."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    missing = column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    if missing.any():
        return as_labels(path, np.empty(0), missing)  # raises an error with the position
    values: Labels = column.to_numpy(zero_copy_only=False)
    return values if values.dtype.kind in "iub" else np.strings.strip(values.astype(str))


# -- arrays -------------------------------------------------------------------------------------------


class _Npy:
    """A `.npy` array of features; the labels of `x.npy` are in `x.labels.npy`. It can be split anywhere."""

    def inspect(self, path: str, columns: Columns) -> FileInfo:
        """Read the headers."""
        named = (
            columns.features is not None and not columns.of_model
        )  # those of a model are taken by position
        if named or (columns.label, columns.id, columns.group) != (None, None, None):
            raise DataError(
                f"{path}: a .npy file has no named columns. Its labels are in NAME.labels.npy beside it. A "
                ".npz file can have arrays X, y and groups. Use --group-column groups for the latter."
            )
        with open_file(path) as file:
            shape, dtype, _, _ = _header(path, file)
        if len(shape) != 2 or dtype.kind not in "fiub":
            raise DataError(f"{path}: the features must be a table of numbers, not {dtype} of shape {shape}.")
        label: str | None = path[: -len(".npy")] + ".labels.npy"
        try:
            with open_file(str(label)) as file:
                n_labels = _header(str(label), file)[0]
        except FileNotFoundError:
            label, n_labels = None, shape[:1]
        if n_labels != shape[:1]:
            raise DataError(f"{path}: {shape[0]:,} samples but labels of shape {n_labels} in {label}.")
        roles = Roles([], label, None, None, [])
        return FileInfo(shape[1], shape[1] * dtype.itemsize, range(1, shape[0] + 1), roles)

    def read(self, path: str, start: int, stop: int, roles: Roles, n_rows: int) -> Iterator[Piece]:
        """Read samples, at most `n_rows` at a time."""
        labels = None if roles.label is None else self.read_labels(path, start, stop, roles.label)
        with open_file(path) as file:
            header = _header(path, file)
            for first in range(start, stop, n_rows):
                last = min(first + n_rows, stop)
                X = _rows(path, file, header, first, last)
                yield Piece(X, None if labels is None else labels[first - start : last - start])

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


_Header = tuple[tuple[int, ...], np.dtype[Any], int, bool]


def _header(path: str, file: IO[bytes]) -> _Header:
    """Return the header, with the offset of the data."""
    try:
        shape, is_fortran, dtype = read_header(file)
    except (ValueError, EOFError) as error:
        raise DataError(f"{path}: not a valid .npy file ({error}).") from error
    if dtype.hasobject:
        raise DataError(f"{path} holds Python objects. Save an array of numbers or text.")
    start = file.tell()
    promised, there = math.prod(shape) * dtype.itemsize, file.seek(0, os.SEEK_END) - start
    if promised > there:  # check early, before memory is reserved for rows that do not exist
        raise DataError(
            f"{path}: the file is truncated or its header is wrong: an array of shape {shape} needs "
            f"{promised:,} bytes, but the file has {there:,}."
        )
    return shape, dtype, start, is_fortran and len(shape) > 1


def _rows(path: str, file: IO[bytes], header: _Header, start: int, stop: int) -> NDArray[Any]:
    (_, *rest), dtype, offset, by_columns = header
    if by_columns:
        return _by_columns(path, header, start, stop)
    row_bytes = dtype.itemsize * int(np.prod(rest, dtype=int))
    file.seek(offset + start * row_bytes)
    rows = np.empty((stop - start, *rest), dtype)
    view: Any = memoryview(rows)  # type: ignore[arg-type]
    n_read = file.readinto(view.cast("B")) if rows.size else 0  # type: ignore[attr-defined]
    if n_read < rows.nbytes:
        raise DataError(f"{_place(path, start, stop)}: the file ends before them; it is truncated.")
    return rows


def _by_columns(path: str, header: _Header, start: int, stop: int) -> NDArray[Any]:
    """Read rows of an array in Fortran order; this needs a local file, which can be memory-mapped."""
    shape, dtype, offset, _ = header
    if "://" in path:
        raise DataError(f"{path}: save it in C order: np.save(path, np.ascontiguousarray(X)).")
    try:
        whole = np.memmap(path, dtype, "r", offset, shape, order="F")
    except ValueError as error:
        raise DataError(f"{path}: not a valid .npy file ({error}).") from error
    return np.ascontiguousarray(whole[start:stop])


def _place(path: str, start: int, stop: int) -> str:
    return f"{path}, samples {start + 1:,} to {stop:,}"
