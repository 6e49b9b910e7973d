"""More samples than memory: files of vectors as parts, and parts as batches of bounded size."""

from __future__ import annotations

import glob
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from openworld.data.stream_formats import Look, format_of, fsspec
from openworld.data.tables import DataError, _as_labels

T = TypeVar("T")

BATCH_BYTES = 16 << 20
PART_BYTES = 64 << 20
_FEW = 0.02  # the share of samples up to which reading one by one costs less than reading all
ENDINGS = (".parquet", ".arrow", ".feather", ".ipc", ".npy")


@dataclass(frozen=True)
class Batch:
    """Some samples in the order of their stream.

    Attributes
    ----------
    X : array of shape (n, D)
    y : array of shape (n,) or None
    rows : array of shape (n,)
        The number of each sample in the whole stream, from 0.
    names : list of str or None
        What the samples are features of.
    failures : list of (name, reason)
        What could not be read and was left out.
    n_unlabelled : int
        How many were left out for want of a label.
    """

    X: NDArray[Any]
    y: NDArray[Any] | None
    rows: NDArray[np.int64]
    names: list[str] | None = None
    failures: list[tuple[str, str]] = field(default_factory=list)
    n_unlabelled: int = 0


class Part(Protocol):
    """A run of samples, told by where they lie: small to send, and read where it is needed."""

    side_by_side: bool  # whether several of them are best worked on at a time, each by a thread

    def __len__(self) -> int: ...

    def __str__(self) -> str: ...

    def batches(self) -> Iterator[Batch]:
        """Read the samples, a bounded number at a time."""
        ...

    def labels(self) -> NDArray[Any]:
        """Read the labels alone."""
        ...


@dataclass(frozen=True)
class Stream:
    """Samples in a fixed order, cut into parts the same way every time.

    Attributes
    ----------
    name : str
        For messages.
    parts : list of Part
    n_features : int
    labelled : bool
    extractor : dict of str or None
        The id of the extractor that makes the features; None where they are just numbers.
    called : str
        What one sample is called.
    """

    name: str
    parts: list[Any]
    n_features: int
    labelled: bool
    extractor: dict[str, str] | None = None
    called: str = "sample"

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def batches(self) -> Iterator[Batch]:
        """Go through all samples; what comes next is read while a batch is worked on."""
        return read_ahead(batch for part in self.parts for batch in part.batches())


@dataclass(frozen=True)
class FilePart:
    """A run of samples in one file of vectors.

    Attributes
    ----------
    path : str
        A path, or an address that fsspec opens.
    start, stop : int
        The samples of the file that it has.
    offset : int
        How many samples of the stream come before it.
    label : str or None
        The column with the labels, or the file of labels beside a `.npy` file.
    numbers : bool
        Whether labels that are text are whole numbers throughout, and read as such.
    batch_rows : int
    named : str or None
        The label of all samples, in place of their own.
    """

    path: str
    start: int
    stop: int
    offset: int
    label: str | None
    numbers: bool
    batch_rows: int
    named: str | None = None
    side_by_side: ClassVar[bool] = True

    def __len__(self) -> int:
        return self.stop - self.start

    def __str__(self) -> str:
        return f"{self.path}, samples {self.start + 1:,} to {self.stop:,}"

    def batches(self) -> Iterator[Batch]:
        """Read the samples, a bounded number at a time; raise DataError where they cannot be used."""
        done = 0
        pieces = format_of(self.path).read(self.path, self.start, self.stop, self.label, self.batch_rows)
        for X, y in pieces:
            rows = np.arange(done, done + len(X))
            _check(self, X, self.start + rows)
            if self.named is not None:
                y = np.full(len(X), self.named)
            yield Batch(X, y.astype(np.int64) if y is not None and self.numbers else y, self.offset + rows)
            done += len(X)

    def some(self, wanted: NDArray[np.bool_]) -> Iterator[Batch]:
        """Read the samples that are wanted; where they are few and the file allows it, only these."""
        rows = np.flatnonzero(wanted)
        if len(rows) <= _FEW * len(self):
            X = format_of(self.path).read_rows(self.path, self.start + rows)
            if X is not None:
                _check(self, X, self.start + rows)
                yield Batch(X, self.labels()[rows] if self.label or self.named else None, self.offset + rows)
                return
        for batch in self.batches():
            here = wanted[batch.rows - self.offset]
            y = None if batch.y is None else batch.y[here]
            yield replace(batch, X=batch.X[here], y=y, rows=batch.rows[here])

    def labels(self) -> NDArray[Any]:
        """Read the labels alone."""
        if self.named is not None:
            return np.full(len(self), self.named)
        if self.label is None:
            raise DataError(f"{self.path}: there are no labels in it.")
        found = format_of(self.path).read_labels(self.path, self.start, self.stop, self.label)
        return found.astype(np.int64) if self.numbers else found


def open_stream(
    path: str | os.PathLike[str] | Iterable[str],
    *,
    label_column: str | None = None,
    label: str | None = None,
    batch_bytes: int = BATCH_BYTES,
    part_bytes: int = PART_BYTES,
) -> Stream:
    """Open files of vectors without reading them.

    Parameters
    ----------
    path : path, address or several of them
        `.parquet`: numeric columns, or one column of lists named `features`. `.arrow`, `.feather`, `.ipc`:
        the same as an Arrow file. `.npy`: the features, with the labels of `x.npy` in `x.labels.npy` beside
        it. A pattern such as `s3://bucket/part-*.parquet` stands for all that match, in the order of their
        names. Addresses (`s3://`, `gs://`, `memory://`) are opened with fsspec.
    label_column : str, optional
        By default `label`, which may be missing; of no meaning for `.npy`.
    label : str, optional
        The label of all samples, in place of their own.
    batch_bytes : int, default=16 MiB
        Features read at a time. Of an Arrow file at least a record batch is mapped.
    part_bytes : int, default=64 MiB
        Features of one part; a Parquet part is at least a row group, read batch by batch.

    Raises
    ------
    DataError
        If a file cannot be used.
    FileNotFoundError
        If there is no such file.
    """
    paths = matching(path)
    looks = {one: format_of(one).look(one, label_column) for one in paths}
    _check_alike(looks)
    parts: list[FilePart] = []
    offset = 0
    for one, look in looks.items():
        batch_rows = max(1, batch_bytes // look.row_bytes)
        for start, stop in _runs(look.ends, part_bytes // look.row_bytes):
            parts.append(FilePart(one, start, stop, offset, look.label, False, batch_rows, label))
            offset += stop - start
    if not parts:
        raise DataError(f"{path}: there are no samples in it.")
    labelled = label is not None or parts[0].label is not None
    if label is None and labelled and _are_numbers(parts):
        parts = [replace(part, numbers=True) for part in parts]
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else paths[0]
    first = looks[paths[0]]
    return Stream(name, parts, first.n_features, labelled, first.extractor)


def matching(path: str | os.PathLike[str] | Iterable[str]) -> list[str]:
    """Return the files that a path, an address or a pattern stands for."""
    if not isinstance(path, str | os.PathLike):
        return [one for some in path for one in matching(some)]
    text = os.fspath(path)
    if "://" in text:
        filesystem = fsspec().core.url_to_fs(text)[0]
        if not glob.has_magic(text):
            return [text]
        return sorted(map(filesystem.unstrip_protocol, filesystem.glob(text)))
    found = sorted(glob.glob(text)) if glob.has_magic(text) and not Path(text).exists() else [text]
    if not found:
        raise FileNotFoundError(f"{text}: nothing matches.")
    return found


def read_ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield items while a thread gets the next one."""
    end = object()
    with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as pool:
        coming = pool.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = pool.submit(next, items, end)
            yield item  # type: ignore[misc]


def _runs(ends: Sequence[int], rows: int) -> Iterator[tuple[int, int]]:
    """Join pieces that end at the given rows into runs of at most as many rows as wanted, if they can be."""
    start = 0
    while ends and start < ends[-1]:
        stop = ends[max(bisect_right(ends, start + rows) - 1, bisect_right(ends, start))]
        yield start, stop
        start = stop


def _check_alike(looks: dict[str, Look]) -> None:
    first, *others = looks.items()
    for path, look in others:
        if look.n_features != first[1].n_features:
            raise DataError(
                f"{path} has {look.n_features} features, but {first[0]} has {first[1].n_features}."
            )
        if (look.label is None) != (first[1].label is None):
            without = path if look.label is None else first[0]
            raise DataError(f"{without}: there are no labels in it, but in other files of the stream.")


def _are_numbers(parts: list[FilePart]) -> bool:
    """Return whether labels stored as text are all whole numbers; most often the first part tells."""
    for part in parts:
        labels = part.labels()
        if labels.dtype.kind != "U":
            return False
        some = np.unique(labels)
        if _as_labels(Path(part.path), some, some == "").dtype.kind == "U":
            return False
    return True


def _check(part: FilePart, X: NDArray[Any], rows: NDArray[np.intp]) -> None:
    """Raise DataError with the place of what cannot be used; one product tells that all is well."""
    with np.errstate(over="ignore", invalid="ignore"):
        if X.dtype.kind in "iub" or (X.dtype.kind == "f" and np.isfinite(np.vdot(X, X))):
            return
    if X.dtype.kind != "f":
        raise DataError(f"{part}: the features must be numbers, not {X.dtype}.")
    bad = np.argwhere(~np.isfinite(X))
    if len(bad):
        row, column = bad[0]
        raise DataError(
            f"{part}: sample {rows[row] + 1:,}, feature number {column + 1}: {X[row, column]} is not a "
            "finite number. Fill in or leave out such samples first."
        )
