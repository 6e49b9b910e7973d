"""Files of vectors that are read at once: `.csv` and `.tsv` tables, `.npz` archives."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.data.columns import ENCODE, Columns, Roles, ignored_note, listed
from openworld.data.delimited import DelimitedFile, open_delimited
from openworld.data.errors import DataError
from openworld.data.missing import filled
from openworld.data.stream import ArrayPart, Batch, Stream
from openworld.data.values import NotANumber, as_groups, as_labels, as_numbers, counts_rows

_ROWS_AT_ONCE = 8192  # bounds the memory for cells as text


def in_memory(
    name: str,
    X: NDArray[Any],
    y: NDArray[Any] | None,
    *,
    names: list[str] | None = None,
    ids: list[Any] | None = None,
    groups: NDArray[Any] | None = None,
    rows: NDArray[np.int64] | None = None,
    **about: Any,
) -> Stream:
    """Return arrays as a stream with one part; `about` are other attributes of `Stream`."""
    batch = Batch(X, y, np.arange(len(X)) if rows is None else rows, names, ids, groups)
    return Stream(name, [ArrayPart(name, batch)], X.shape[1], y is not None, **about)


# -- tables in text files -----------------------------------------------------------------------------


def read_delimited(path: Path, columns: Columns) -> Stream:
    """Read a table of numbers; see `openworld.data.streams.open_stream`."""
    file = open_delimited(path)
    _check_header(file)
    roles = columns.roles(path, file.columns)
    place = {name: i for i, name in enumerate(file.columns)}
    chosen = [place[name] for name in roles.features]
    blocks, labels, ids, groups, lines = [], [], [], [], []
    for chunk in _chunks(file):
        blocks.append(_numbers(file, roles, chosen, chunk))
        lines += [line for line, _ in chunk]
        if roles.label is not None:
            labels += [row[place[roles.label]].strip() for _, row in chunk]
        if roles.id is not None:
            ids += [row[place[roles.id]] for _, row in chunk]
        if roles.group is not None:
            groups += [row[place[roles.group]] for _, row in chunk]
    if not blocks:
        raise DataError(f"{path}: it has no samples, only a header. {listed(file.columns)}")
    X = np.concatenate(blocks)
    y = None if roles.label is None else _labels(path, roles.label, labels, lines)
    roles, X = _without_row_numbers(roles, X, columns)
    kept, X, notes = filled(path, X, columns, roles.features, [f"line {line}" for line in lines])
    return in_memory(
        str(path),
        X,
        None if y is None else y[kept],
        ids=[ids[i] for i in np.flatnonzero(kept)] if ids else None,
        groups=as_groups(groups)[kept] if groups else None,
        rows=np.flatnonzero(kept),
        feature_names=roles.features,
        notes=[*file.notes, *ignored_note(path, roles.ignored), *notes],
    )


def _chunks(file: DelimitedFile) -> Iterator[list[tuple[int, list[str]]]]:
    rows = file.rows()
    while chunk := list(itertools.islice(rows, _ROWS_AT_ONCE)):
        yield chunk


def _check_header(file: DelimitedFile) -> None:
    if _are_values(file.columns):
        raise DataError(
            f"{file.path}: the first line has values instead of column names: {', '.join(file.columns[:6])}. "
            "Add a header line with the names of the columns."
        )
    name, count = max(Counter(file.columns).items(), key=lambda one: one[1], default=("", 0))
    if count > 1:
        raise DataError(f'{file.path}: {count} columns are named "{name}". Give each column its own name.')


def _are_values(names: list[str]) -> bool:
    """Return whether a header line holds values: a fraction, or mostly whole numbers in no order.

    Whole numbers in ascending order are names: pandas' default 0, 1, 2, years, wavelengths.
    """
    numbers = [number for number in map(_as_number, names) if number is not None]
    if not all(number.is_integer() for number in numbers):
        return True
    ascending = all(a < b for a, b in itertools.pairwise(numbers))
    return len(numbers) > len(names) / 2 and not ascending


def _as_number(name: str) -> float | None:
    try:
        return float(name)
    except ValueError:
        return None


def _numbers(
    file: DelimitedFile, roles: Roles, chosen: list[int], chunk: list[tuple[int, list[str]]]
) -> NDArray[np.float64]:
    X = np.empty((len(chunk), len(chosen)))
    for j, i in enumerate(chosen):
        try:
            X[:, j] = as_numbers([row[i] for _, row in chunk], decimal_comma=file.delimiter != ",")
        except NotANumber as error:
            line, name = chunk[error.position][0], file.columns[i]
            hint = _hint(name, file.columns, roles)
            raise DataError(f'{file.path}: line {line}, column "{name}": {error}. {hint}') from error
    return X


def _hint(name: str, columns: list[str], roles: Roles) -> str:
    """Return advice on the options for a column that is not numeric."""
    if roles.label is None:
        return f'{listed(columns)} If "{name}" is the label, use --label-column {name}. {ENCODE}'
    return (
        f"{listed(columns)} {ENCODE} If it is an id, use --id-column {name}. In openworld fit, "
        "--feature-columns names the columns to use."
    )


def _labels(path: Path, name: str, cells: list[str], lines: list[int]) -> NDArray[Any]:
    for line, cell in zip(lines, cells, strict=True):
        if not cell:
            raise DataError(f'{path}: line {line}, column "{name}": the sample has no label.')
    return as_labels(path, np.array(cells), np.zeros(len(cells), dtype=bool))


def _without_row_numbers(
    roles: Roles, X: NDArray[np.float64], columns: Columns
) -> tuple[Roles, NDArray[np.float64]]:
    """Drop columns that only count the rows, unless the user named them."""
    if columns.features is not None or X.shape[1] == 1:
        return roles, X
    counting = [j for j in range(X.shape[1]) if counts_rows(X[:, j])]
    if not counting or len(counting) == X.shape[1]:
        return roles, X
    names = [roles.features[j] for j in counting]
    kept = [name for name in roles.features if name not in names]
    return replace(roles, features=kept, ignored=[*roles.ignored, *names]), np.delete(X, counting, axis=1)


# -- archives -----------------------------------------------------------------------------------------


def read_npz(path: Path, columns: Columns) -> Stream:
    """Read an archive of arrays; see `openworld.data.streams.open_stream`."""
    arrays = load_npz(path)
    label = columns.label or "y"
    for name in ("X", columns.label, columns.group):
        if name is not None and name not in arrays:
            raise DataError(f"{path}: no array named {name!r}; the file has {', '.join(arrays)}.")
    try:
        made_by = json.loads(str(arrays["extractor"])) if "extractor" in arrays else None
    except ValueError as error:
        raise DataError(f"{path}: not a valid .npz file ({error}).") from error
    X, y = arrays["X"], arrays.get(label)
    names = arrays["names"].astype(str).tolist() if made_by and "names" in arrays else None
    check_arrays(path, X, y)
    if names is not None and len(names) != len(X):
        raise DataError(f"{path}: {len(X)} samples but {len(names)} names.")
    groups = _groups(path, arrays, len(X), columns.group)
    kept, X, notes = filled(path, X, columns, None, None)
    return in_memory(
        str(path),
        X,
        None if y is None else y[kept],
        names=None if names is None else [names[i] for i in np.flatnonzero(kept)],
        groups=None if groups is None else groups[kept],
        rows=np.flatnonzero(kept),
        extractor=made_by,
        notes=notes,
    )


def _groups(path: Path, arrays: dict[str, NDArray[Any]], n: int, name: str | None) -> NDArray[Any] | None:
    if name is None:
        return None
    if arrays[name].shape != (n,):
        raise DataError(
            f"{path}: array {name!r} must have one group for each of {n:,} samples, but its shape is "
            f"{arrays[name].shape}."
        )
    return as_groups(arrays[name].astype(str).tolist())


def load_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Read all arrays of an archive."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged archive can raise any error
        raise DataError(
            f"{path}: not a valid .npz file. Write it with numpy.savez, without objects."
        ) from error


def check_arrays(path: Path, X: NDArray[Any], y: NDArray[Any] | None) -> None:
    """Raise DataError unless X has shape (n, D) and is numeric, and y, if given, has shape (n,)."""
    if X.ndim != 2:
        raise DataError(f"{path}: the features must be a table (samples, features), not {X.shape}.")
    if not X.size:
        raise DataError(f"{path}: it has no samples.")
    if y is not None and y.shape != X.shape[:1]:
        raise DataError(f"{path}: {len(X)} samples but labels of shape {y.shape}.")
    if X.dtype.kind not in "fiub":
        raise DataError(f"{path}: the features must be numbers, not {X.dtype}.")
