"""Data sets for experiments: samples with labels, and how they may be split."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.data.letters import Letters, load_letters
from openworld.data.tables import DataError, Samples, check_samples, read_samples

# The built-in data set in several feature sets.
LETTERS: dict[str, Callable[[Letters], NDArray[np.float32]]] = {
    "letters": lambda letters: letters.frequencies,
    "letters-pixels": lambda letters: letters.X,
}


@dataclass(frozen=True)
class Dataset:
    """Labelled samples.

    Attributes
    ----------
    name : str
    X : array of shape (n, D)
    y : array of shape (n,)
    groups : array of shape (n,) or None
        What must not be torn apart between training and test, for example typeface, drawer or camera.
    is_test : bool array of shape (n,) or None
        Where the data set comes with a test part of its own.
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
        """Return a short text that changes when the data do."""
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


def load_dataset(
    name: str | os.PathLike[str],
    *,
    label_column: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Dataset:
    """Load a data set by name or path.

    Parameters
    ----------
    name : str or path
        `letters`, the built-in data set as 256 cosine frequencies, or `letters-pixels`; or a feature file
        with labels (`.npz`, `.csv`, `.parquet`); or a folder of ILSVRC'10 feature files (`.sbow.mat`). A
        `.npz` file may hold `X_train`, `y_train`, `X_test`, `y_test` in place of `X`, `y`, and beside these
        `groups` or `is_test`. Pictures and texts: see `openworld.evaluation.datasets.load`.
    label_column : str, optional
        The array or column with the labels.
    progress : callable, optional
        Called with (done, total) while the data are read.
    """
    path = Path(name)
    if str(name) in LETTERS:
        letters = load_letters(progress=progress)
        return Dataset(str(name), LETTERS[str(name)](letters), letters.labels, letters.faces)
    if path.is_dir():
        if any(path.rglob("*.sbow.mat")):
            from openworld.data.ilsvrc import read_visual_words

            return Dataset(path.name, *read_visual_words(path, progress=progress))
        raise DataError(
            f"{path}: a folder without feature files; .npz, .csv, .parquet or .sbow.mat are read."
        )
    if path.suffix.lower() == ".npz" and path.is_file():
        return _from_npz(path, label_column)
    if not path.exists():
        raise FileNotFoundError(
            f"{name}: neither a built-in data set ({', '.join(LETTERS)}) nor a file or folder."
        )
    samples = read_samples(path, label_column=label_column)
    if samples.y is None:
        raise DataError(f"{path}: an experiment needs labels; name their column label.")
    return Dataset(path.stem, samples.X, samples.y)


def _from_npz(path: Path, label_column: str | None) -> Dataset:
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except Exception as error:  # a damaged archive shows itself in many ways
        raise DataError(f"{path}: not a sound .npz file ({error}).") from error
    if {"X_train", "y_train", "X_test", "y_test"} <= arrays.keys():
        parts = [Samples(arrays[f"X_{part}"], arrays[f"y_{part}"]) for part in ("train", "test")]
        for samples in parts:
            check_samples(path, samples)
        train, test = (samples.X for samples in parts)
        if train.shape[1] != test.shape[1]:
            raise DataError(f"{path}: {train.shape[1]} features for training, {test.shape[1]} for test.")
        is_test = np.arange(len(train) + len(test)) >= len(train)
        y = np.concatenate([arrays["y_train"], arrays["y_test"]])
        return Dataset(path.stem, np.concatenate([train, test]), y, None, is_test)
    label = label_column or "y"
    if "X" not in arrays or label not in arrays:
        raise DataError(f"{path}: needs arrays X and {label}; it has {', '.join(arrays)}.")
    check_samples(path, Samples(arrays["X"], arrays[label]))
    return Dataset(path.stem, arrays["X"], arrays[label], arrays.get("groups"), arrays.get("is_test"))
