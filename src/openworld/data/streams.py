"""Files of feature vectors of any size, opened as streams."""

from __future__ import annotations

import glob
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from openworld.data import delimited
from openworld.data.columns import Columns, Roles, ignored_note
from openworld.data.errors import DataError, no_such_file
from openworld.data.missing import filled
from openworld.data.stream import Batch, Stream
from openworld.data.stream_formats import FileInfo, Piece, format_of, fsspec
from openworld.data.tables import read_delimited, read_npz
from openworld.data.values import as_labels

BATCH_BYTES = 16 << 20
PART_BYTES = 64 << 20
_FEW = 0.02  # share of samples up to which reading them one by one is cheaper than reading all


@dataclass(frozen=True)
class FilePart:
    """A range of samples in one file of vectors.

    Attributes
    ----------
    path : str
        A path, or a URL that fsspec opens.
    start, stop : int
        The range of samples in the file.
    offset : int
        Number of samples of the stream before this part.
    roles : Roles
        The roles of the columns; the label "column" of a `.npy` file is its file of labels.
    columns : Columns
        How to handle missing values.
    batch_rows : int
    numbers : bool
        Whether all text labels of the stream are whole numbers, and are converted to integers.
    named : str or None
        The label of all samples, instead of their own.
    """

    path: str
    start: int
    stop: int
    offset: int
    roles: Roles
    columns: Columns
    batch_rows: int
    numbers: bool = False
    named: str | None = None
    side_by_side: ClassVar[bool] = True

    def __len__(self) -> int:
        return self.stop - self.start

    def __str__(self) -> str:
        return f"{self.path}, samples {self.start + 1:,} to {self.stop:,}"

    @property
    def rows(self) -> NDArray[np.int64]:
        """The indices of the samples in the stream."""
        return np.arange(self.offset, self.offset + len(self))

    def batches(self) -> Iterator[Batch]:
        """Read the samples in batches of bounded size; raise DataError if they cannot be used."""
        done = 0
        for piece in format_of(self.path).read(self.path, self.start, self.stop, self.roles, self.batch_rows):
            n, y = len(piece.X), piece.y
            if self.named is not None:
                y = np.full(n, self.named)
            elif y is not None and self.numbers:
                y = y.astype(np.int64)
            yield self._checked(piece._replace(y=y), np.arange(done, done + n))
            done += n

    def select(self, wanted: NDArray[np.bool_]) -> Iterator[Batch]:
        """Read the selected samples; if they are few and the format allows it, only these."""
        rows = np.flatnonzero(wanted)
        if len(rows) <= _FEW * len(self) and self.roles.id is None and self.roles.group is None:
            X = format_of(self.path).read_rows(self.path, self.start + rows)
            if X is not None:
                y = self.labels()[rows] if self.roles.label or self.named else None
                yield self._checked(Piece(X, y), rows)
                return
        for batch in self.batches():
            yield batch.take(wanted[batch.rows - self.offset])

    def labels(self) -> NDArray[Any]:
        """Read only the labels."""
        if self.named is not None:
            return np.full(len(self), self.named)
        if self.roles.label is None:
            raise DataError(f"{self.path}: it has no labels.")
        found = format_of(self.path).read_labels(self.path, self.start, self.stop, self.roles.label)
        return found.astype(np.int64) if self.numbers else found

    def _checked(self, piece: Piece, rows: NDArray[np.int64]) -> Batch:
        """Handle missing values and convert labels."""
        X = piece.X
        if X.dtype.kind not in "fiub":
            raise DataError(f"{self}: the features must be numbers, not {X.dtype}.")
        names = self.roles.features if len(self.roles.features) == X.shape[1] else None
        batch = Batch(X, piece.y, self.offset + rows, None, piece.ids, piece.groups)
        kept, X, _ = filled(self, X, self.columns, names, _Numbers(self.start + rows))
        return replace(batch if kept.all() else batch.take(kept), X=X)


class _Numbers(Sequence[str]):
    """The location of each sample, "sample 1" and so on, made on demand."""

    def __init__(self, rows: NDArray[np.int64]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: Any) -> Any:
        return f"sample {self.rows[i] + 1:,}"


def open_stream(
    path: str | os.PathLike[str] | Iterable[str],
    *,
    columns: Columns | None = None,
    label: str | None = None,
    batch_bytes: int = BATCH_BYTES,
    part_bytes: int = PART_BYTES,
) -> Stream:
    """Open files of vectors. `.csv`, `.tsv` and `.npz` files are read at once, as a stream of one part.

    Parameters
    ----------
    path : path, URL or several of them
        `.csv`, `.tsv`, also with `.gz`: a header line, then one sample per line, separated by comma,
        semicolon, tab or bar. `.npz`: arrays `X` (n, D) and optionally `y` (n,), and `names`, `extractor` and
        `groups` as written by `openworld extract`. `.parquet`: numeric columns, or one column of lists named
        `features`. `.arrow`, `.feather`, `.ipc`: the same in an Arrow file. `.npy`: the features, with the
        labels of `x.npy` in `x.labels.npy`. A pattern such as `s3://bucket/part-*.parquet` means all matching
        files, sorted by name. URLs (`s3://`, `gs://`, `memory://`) are opened with fsspec.
    columns : Columns, optional
        The roles of columns; by default labels are in `label` (in an archive: `y`), if it exists.
    label : str, optional
        The label of all samples, instead of their own.
    batch_bytes : int, default=16 MiB
        Size of a batch. For an Arrow file at least one record batch is mapped.
    part_bytes : int, default=64 MiB
        Size of a part. A Parquet part is at least one row group, read in batches.

    Raises
    ------
    DataError
        If a file cannot be used.
    FileNotFoundError
        If there is no such file.
    """
    paths, columns = matching(path), columns or Columns()
    if len(paths) == 1 and (stream := _read_at_once(paths[0], columns, label)) is not None:
        return stream
    infos = {one: format_of(one).inspect(one, columns) for one in paths}
    _check_alike(infos)
    parts: list[FilePart] = []
    offset = 0
    for one, info in infos.items():
        batch_rows = max(1, batch_bytes // info.row_bytes)
        for start, stop in _runs(info.ends, part_bytes // info.row_bytes):
            parts.append(FilePart(one, start, stop, offset, info.roles, columns, batch_rows, named=label))
            offset += stop - start
    if not parts:
        raise DataError(f"{path}: it has no samples.")
    labeled = label is not None or parts[0].roles.label is not None
    if label is None and labeled and _are_numbers(parts):
        parts = [replace(part, numbers=True) for part in parts]
    if columns.missing == "mean" and columns.means is None:
        columns = replace(columns, means=_column_means(parts))
        parts = [replace(part, columns=columns) for part in parts]
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else paths[0]
    first = infos[paths[0]]
    notes = ignored_note(name, first.roles.ignored)
    return Stream(name, parts, first.n_features, labeled, first.extractor, first.feature_names, notes=notes)


def _read_at_once(path: str, columns: Columns, label: str | None) -> Stream | None:
    """Read a `.csv`, `.tsv` or `.npz` file as a stream of one part; return None for other files."""
    ending = delimited.ending_of(Path(path))
    if ending not in (*delimited.ENDINGS, ".npz"):
        return None
    if not Path(path).exists():
        raise no_such_file(path)
    stream = (read_npz if ending == ".npz" else read_delimited)(Path(path), columns)
    if label is None:
        return stream
    (part,) = stream.parts
    batch = replace(part.batch, y=np.full(len(part), label))
    return replace(stream, parts=[replace(part, batch=batch)], labeled=True)


def matching(path: str | os.PathLike[str] | Iterable[str]) -> list[str]:
    """Return the files that a path, URL or pattern refers to."""
    if not isinstance(path, str | os.PathLike):
        return [one for some in path for one in matching(some)]
    text = os.fspath(path)
    if "://" in text:
        filesystem = fsspec().core.url_to_fs(text)[0]
        if not glob.has_magic(text):
            return [text]
        return sorted(map(filesystem.unstrip_protocol, filesystem.glob(text)))
    found = sorted(glob.glob(text)) if is_pattern(text) else [text]
    if not found:
        raise FileNotFoundError(f"{text}: no file matches.")
    return found


def is_pattern(path: str) -> bool:
    """Return whether a path is a pattern; the literal name of an existing file is not."""
    return glob.has_magic(path) and not Path(path).exists()


def _runs(ends: Sequence[int], rows: int) -> Iterator[tuple[int, int]]:
    """Join pieces that end at the given rows into ranges of at most `rows` rows, where possible."""
    start = 0
    while ends and start < ends[-1]:
        stop = ends[max(bisect_right(ends, start + rows) - 1, bisect_right(ends, start))]
        yield start, stop
        start = stop


def _check_alike(infos: dict[str, FileInfo]) -> None:
    (first_path, first), *others = infos.items()
    for path, info in others:
        if info.n_features != first.n_features:
            raise DataError(
                f"{path} has {info.n_features} features, but {first_path} has {first.n_features}."
            )
        if info.feature_names != first.feature_names:
            raise DataError(
                f"{path} has different feature columns than {first_path}, or in a different order: "
                f"{', '.join((info.feature_names or [])[:10])}. Use --feature-columns to name them."
            )
        if (info.roles.label is None) != (first.roles.label is None):
            without = path if info.roles.label is None else first_path
            raise DataError(f"{without} has no labels, but other files of the stream have.")


def _column_means(parts: list[FilePart]) -> tuple[float, ...]:
    """Return the mean of each column over the values that are not missing; this reads all parts."""
    total, count = np.zeros(1), np.zeros(1)
    for part in parts:
        pieces = format_of(part.path).read(part.path, part.start, part.stop, part.roles, part.batch_rows)
        for piece in pieces:
            total = total + np.nansum(piece.X, axis=0, dtype=np.float64)
            count = count + np.isfinite(piece.X).sum(axis=0)
    if not count.all():
        raise DataError(f"{parts[0].path}: feature number {int(np.argmin(count)) + 1} has no values at all.")
    return tuple((total / count).tolist())


def _are_numbers(parts: list[FilePart]) -> bool:
    """Return whether all labels stored as text are whole numbers; usually the first part decides."""
    for part in parts:
        labels = part.labels()
        if labels.dtype.kind != "U":
            return False
        some = np.unique(labels)
        if as_labels(part.path, some, some == "").dtype.kind == "U":
            return False
    return True
