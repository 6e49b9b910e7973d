"""Samples from files: `.npz` and `.npy` arrays, `.csv` tables, `.parquet` tables."""

from __future__ import annotations

import csv
import json
import os
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class DataError(ValueError):
    """A data file cannot be used; the text says which, where and what to do."""


@dataclass(frozen=True)
class Samples:
    """Feature vectors, with labels where the file has them.

    Attributes
    ----------
    X : array of shape (n, D)
    y : array of shape (n,) or None
    feature_names : list of str or None
        Column names, where the file names its columns.
    names : list of str or None
        What each sample is a feature of: where a picture lay, or a text.
    extractor : dict of str or None
        The id of the extractor that made the features; None where they are just numbers.
    """

    X: NDArray[Any]
    y: NDArray[Any] | None
    feature_names: list[str] | None = None
    names: list[str] | None = None
    extractor: dict[str, str] | None = None

    def __len__(self) -> int:
        return len(self.X)


def read_samples(path: str | os.PathLike[str], *, label_column: str | None = None) -> Samples:
    """Read samples from a file; its ending says what it is.

    Parameters
    ----------
    path : path
        `.npz`: arrays `X` (n, D) and, with labels, `y` (n,); also `names` and `extractor` as `openworld
        extract` writes them. `.npy`: the features alone. `.csv`: a
        header line, one sample per line, numbers in every column but the label's. `.parquet`: numeric
        columns, or one column of lists named `features`; needs ``pip install openworld[evaluate]``.
    label_column : str, optional
        The array or column with the labels. By default `y` in `.npz` files and `label` in tables, and
        then it may be missing.

    Raises
    ------
    DataError
        If the file cannot be used.
    FileNotFoundError
        If there is no such file.
    """
    path = Path(path)
    readers = {".npz": _read_npz, ".npy": _read_npy, ".csv": _read_csv, ".parquet": _read_parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DataError(
            f"{path}: cannot read {path.suffix or 'a file without ending'}; give {', '.join(readers)}."
        )
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file.")
    samples = reader(path, label_column)
    if label_column is not None and samples.y is None:
        raise DataError(f"{path}: a .npy file has no labels; use .npz with arrays X and y.")
    check_samples(path, samples)
    return samples


def check_samples(path: Path, samples: Samples) -> None:
    """Raise DataError unless there is a table of finite numbers, with one label per sample or none."""
    if samples.X.ndim != 2:
        raise DataError(f"{path}: the features must be a table (samples, features), not {samples.X.shape}.")
    if not samples.X.size:
        raise DataError(f"{path}: there are no samples in it.")
    if samples.y is not None and samples.y.shape != samples.X.shape[:1]:
        raise DataError(f"{path}: {len(samples.X)} samples but labels of shape {samples.y.shape}.")
    if samples.names is not None and len(samples.names) != len(samples.X):
        raise DataError(f"{path}: {len(samples.X)} samples but {len(samples.names)} names.")
    if samples.X.dtype.kind not in "fiub":
        raise DataError(f"{path}: the features must be numbers, not {samples.X.dtype}.")
    for start in range(0, len(samples), 4096):
        bad = np.argwhere(~np.isfinite(samples.X[start : start + 4096]))
        if len(bad):
            row, column = start + int(bad[0, 0]), int(bad[0, 1])
            name = samples.feature_names[column] if samples.feature_names else f"number {column + 1}"
            raise DataError(
                f"{path}: sample {row + 1}, feature {name}: {samples.X[row, column]} is not a finite number. "
                "Fill in or leave out such samples first."
            )


def _read_npz(path: Path, label_column: str | None) -> Samples:
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            if "X" not in file or (label_column is not None and label_column not in file):
                wanted = "X" if "X" not in file else label_column
                raise DataError(f"{path}: no array named {wanted!r}; the file has {', '.join(file.files)}.")
            samples = Samples(file["X"], file.get(label_column or "y"))
            if "extractor" not in file:
                return samples
            names = file["names"].astype(str).tolist() if "names" in file else None
            return replace(samples, names=names, extractor=json.loads(str(file["extractor"])))
    except DataError:
        raise
    except Exception as error:  # a damaged archive shows itself in many ways
        raise DataError(f"{path}: not a sound .npz file ({error}).") from error


def _read_npy(path: Path, label_column: str | None) -> Samples:
    try:
        return Samples(np.lib.format.open_memmap(path, mode="r"), None)
    except (ValueError, EOFError, OSError) as error:
        raise DataError(f"{path}: not a sound .npy file ({error}).") from error


def _read_csv(path: Path, label_column: str | None) -> Samples:
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file)
        try:
            header = next(lines, [])
            n_header_lines = lines.line_num
            for line in lines:
                if line and len(line) != len(header):
                    raise DataError(
                        f"{path}: line {lines.line_num} has {len(line)} values, the header {len(header)}; a "
                        "value with a comma in it needs quotes."
                    )
        except (UnicodeDecodeError, csv.Error) as error:
            raise DataError(f"{path}: not a sound .csv file ({error}).") from error
    features, label = _split_columns(path, header, label_column)
    columns = [i for i, name in enumerate(header) if name != label]
    try:
        X = _load_columns(path, columns, np.float64, n_header_lines)
        if label is None:
            return Samples(X, None, features)
        labels = _load_columns(path, [header.index(label)], np.str_, n_header_lines)[:, 0]
    except (ValueError, IndexError) as error:
        raise DataError(f"{path}: {error} (row 0 is the one after the header).") from error
    return Samples(X, _as_labels(path, labels, labels == ""), features)


def _load_columns(path: Path, columns: list[int], kind: type, n_header_lines: int) -> NDArray[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an empty table, which is told of later
        return np.loadtxt(
            path,
            dtype=kind,
            usecols=columns,
            delimiter=",",
            skiprows=n_header_lines,
            quotechar='"',
            comments=None,
            ndmin=2,
            encoding="utf-8-sig",
        )


def _read_parquet(path: Path, label_column: str | None) -> Samples:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("Reading .parquet needs pyarrow: pip install openworld[evaluate]") from error
    try:
        table = pq.read_table(path)
    except pa.ArrowException as error:
        raise DataError(f"{path}: not a sound .parquet file ({error}).") from error
    features, label = _split_columns(path, table.column_names, label_column)
    y = None
    if label is not None:
        labels = table[label].to_numpy(zero_copy_only=False)
        y = _as_labels(path, labels, table[label].is_null(nan_is_null=True).to_numpy())
    try:
        if features == ["features"] and pa.types.is_nested(table["features"].type):
            return Samples(_from_lists(path, table["features"].combine_chunks()), y)
        X = np.column_stack([table[name].to_numpy() for name in features])
    except DataError:
        raise
    except (ValueError, TypeError, pa.ArrowException) as error:
        raise DataError(f"{path}: the feature columns must hold numbers ({error}).") from error
    return Samples(X, y, features)


def _from_lists(path: Path, lists: Any) -> NDArray[Any]:
    """Return a column of lists as a table; the lists must be equally long."""
    from pyarrow.compute import list_value_length

    lengths = list_value_length(lists).to_numpy(zero_copy_only=False)  # a missing list has length NaN
    if len(strange := np.flatnonzero(lengths != lengths[:1])):
        raise DataError(f"{path}: sample {strange[0] + 1} does not have as many features as the first.")
    return np.asarray(lists.flatten()).reshape(len(lists), -1)


def _split_columns(path: Path, columns: list[str], label_column: str | None) -> tuple[list[str], str | None]:
    """Return the feature columns and the label column, if there is one."""
    if label_column is not None and label_column not in columns:
        raise DataError(
            f"{path}: no column named {label_column!r}; the columns are {', '.join(columns[:10])}."
        )
    label = label_column or ("label" if "label" in columns else None)
    features = [name for name in columns if name != label]
    if not features:
        raise DataError(f"{path}: there are no feature columns in it.")
    return features, label


def _as_labels(path: Path, labels: NDArray[Any], missing: NDArray[np.bool_]) -> NDArray[Any]:
    """Return whole numbers as integers and everything else as text; a missing label is an error."""
    if missing.any():
        raise DataError(f"{path}: sample {int(missing.argmax()) + 1} has no label.")
    if labels.dtype.kind in "iub":
        return labels
    text = labels.astype(str)
    try:
        numbers = text.astype(np.int64)
    except (ValueError, OverflowError):
        return text
    # "007" stays text: as a number it would come out as 7.
    return numbers if np.array_equal(numbers.astype(str), text) else text
