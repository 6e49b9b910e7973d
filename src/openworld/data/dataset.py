"""Data sets for experiments: labeled samples, and constraints on how to split them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.data.columns import Columns, listed
from openworld.data.errors import DataError
from openworld.data.letters import Letters, load_letters
from openworld.data.missing import filled
from openworld.data.streams import open_stream
from openworld.data.tables import check_arrays, load_npz
from openworld.data.values import group_numbers

# The feature sets of the built-in data set.
LETTERS: dict[str, Callable[[Letters], NDArray[np.float32]]] = {
    "letters": lambda letters: letters.frequencies,
    "letters-pixels": lambda letters: letters.X,
}


@dataclass(frozen=True)
class Dataset:
    """Labeled samples.

    Attributes
    ----------
    name : str
    X : array of shape (n, D)
    y : array of shape (n,)
    groups : array of shape (n,) or None
        Samples of one group are never split between training and test, for example one typeface or camera.
    is_test : bool array of shape (n,) or None
        The test samples, if the data set has a fixed test part.
    """

    name: str
    X: NDArray[Any]
    y: NDArray[Any]
    groups: NDArray[Any] | None = None
    is_test: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        for part in ("y", "groups", "is_test"):
            value = getattr(self, part)
            if value is not None and len(value) != len(self.X):
                raise DataError(f"{self.name}: {len(self.X)} samples, but {part} has {len(value)} values.")

    def fingerprint(self) -> str:
        """Return a hash of the data."""
        digest = hashlib.blake2b(digest_size=8)
        parts = {"X": self.X, "y": self.y, "groups": self.groups, "is_test": self.is_test}
        for name, part in parts.items():
            if part is not None:
                digest.update(repr((name, part.shape, part.dtype.str)).encode())
                for start in range(0, len(part), 4096):
                    digest.update(part[start : start + 4096].tobytes())
        return digest.hexdigest()

    @property
    def classes(self) -> NDArray[Any]:
        """The labels that occur, sorted."""
        return np.unique(self.y)


def load_dataset(name: str | os.PathLike[str], label_column: str | None = None) -> Dataset:
    """Load a data set by name or path.

    Parameters
    ----------
    name : str or path
        `letters`, the built-in data set as 256 cosine frequencies, or `letters-pixels`; or a feature file
        with labels (`.npz`, `.csv`, `.parquet`); or a folder of ILSVRC'10 feature files (`.sbow.mat`). A
        `.npz` file may hold `X_train`, `y_train`, `X_test`, `y_test` in place of `X`, `y`, and beside these
        `groups` or `is_test`. Pictures and texts: see `openworld.evaluation.datasets.load`.
    label_column : str, optional
        The column of a table, or the array of an `.npz` file, with the labels; by default `label`, or `y`.
    """
    path = Path(name)
    if str(name) in LETTERS:
        letters = load_letters()
        return Dataset(str(name), LETTERS[str(name)](letters), letters.labels, letters.faces)
    if path.is_dir():
        if any(path.rglob("*.sbow.mat")):
            from openworld.data.ilsvrc import read_visual_words

            return Dataset(path.name, *read_visual_words(path))
        raise DataError(
            f"{path}: a folder without feature files; .npz, .csv, .parquet or .sbow.mat are read."
        )
    if path.suffix.lower() == ".npz" and path.is_file():
        return _from_npz(path, label_column or "y")
    if not path.exists():
        raise FileNotFoundError(
            f"{name}: there is no such file or folder, and no built-in data set of this name "
            f"({', '.join(LETTERS)})."
        )
    stream = open_stream(path, columns=Columns(label_column))
    batch = stream.read()
    if batch.y is None:
        raise DataError(
            f"{path} has no labels. {listed(stream.feature_names or [])} An experiment needs a column named "
            "label, or another one and --label-column."
        )
    return Dataset(path.stem, batch.X, batch.y)


def _from_npz(path: Path, label: str) -> Dataset:
    arrays, columns = load_npz(path), Columns()
    if {"X_train", "y_train", "X_test", "y_test"} <= arrays.keys():
        for part in ("train", "test"):
            check_arrays(path, arrays[f"X_{part}"], arrays[f"y_{part}"])
            filled(path, arrays[f"X_{part}"], columns, None, None)
        train, test = arrays["X_train"], arrays["X_test"]
        if train.shape[1] != test.shape[1]:
            raise DataError(f"{path}: {train.shape[1]} features for training, {test.shape[1]} for test.")
        is_test = np.arange(len(train) + len(test)) >= len(train)
        y = np.concatenate([arrays["y_train"], arrays["y_test"]])
        return Dataset(path.stem, np.concatenate([train, test]), y, None, is_test)
    if not {"X", label} <= arrays.keys():
        raise DataError(f"{path}: needs arrays X and {label}; it has {', '.join(arrays)}.")
    check_arrays(path, arrays["X"], arrays[label])
    filled(path, arrays["X"], columns, None, None)
    groups = arrays.get("groups")
    if groups is not None and np.any(groups == ""):  # samples that are groups of their own
        groups = group_numbers(groups)
    return Dataset(path.stem, arrays["X"], arrays[label], groups, arrays.get("is_test"))
