"""Data sets for experiments: those of `openworld.data`, and the letters in the paper's feature sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.data.columns import Columns
from openworld.data.dataset import LETTERS, Dataset, load_dataset
from openworld.data.letters import load_letters
from openworld.data.sources import open_source
from openworld.features import HOG, LBP, DenseSIFT
from openworld.samples import Extraction, open_samples


def _descriptors(extract: Any) -> NDArray[np.float32]:
    """Return the descriptors of each letter, concatenated over all places of the picture."""
    return np.stack([extract(image).ravel() for image in load_letters().images]).astype(np.float32)


# A letter is too small for visual words: its few descriptors stand at fixed places.
FEATURE_SETS = {
    "letters-sift": DenseSIFT(step=5, radii=(4,)).descriptors,
    "letters-hog": HOG(cell=4).descriptors,
    "letters-lbp": LBP(cell=7).descriptors,
}


def load(name: str, label_column: str | None = None) -> Dataset:
    """Load a data set by name or path.

    Parameters
    ----------
    name : str
        What `openworld.data.dataset.load_dataset` takes; `letters-sift`, `letters-hog` or `letters-lbp`; or
        pictures or texts with labels, as `openworld.data.sources.open_source` takes them, followed by @ and
        an extractor to use another than the default: `photos`, `photos@pixels`, `questions.csv@ngrams`.
        Unreadable files are skipped. Features are cached. For very many pictures, write a file with
        `openworld extract` first: every worker of an experiment loads its data again.
    label_column : str, optional
        The column of a table with the labels; by default `label`.
    """
    if name in FEATURE_SETS:
        letters = load_letters()
        return Dataset(name, _descriptors(FEATURE_SETS[name]), letters.labels, letters.faces)
    path, extractor = split_name(name)
    if not is_source(path, label_column):
        return load_dataset(path, label_column)
    columns = Columns(label_column)
    stream = open_samples(path, extraction=Extraction(extractor), columns=columns, need_labels=True)
    batch = stream.read()
    assert batch.y is not None
    is_test = stream.source.is_test if stream.source is not None else None
    in_test = None if is_test is None else np.array([is_test(item) for item in batch.names or []])
    return Dataset(Path(name).name, batch.X, batch.y, is_test=in_test)


def split_name(name: str) -> tuple[str, str | None]:
    """Split `photos@pixels` into path and extractor; a path that exists as it is has no extractor."""
    if Path(name).exists():
        return name, None
    parts = name.split("@")
    for i in range(len(parts) - 1, 0, -1):
        path, extractor = "@".join(parts[:i]), "@".join(parts[i:])
        if extractor and Path(path).exists():
            return path, extractor
    return name, None


def is_source(path: str, label_column: str | None = None) -> bool:
    """Return whether a path holds pictures or texts, which need an extractor."""
    if path in LETTERS or not Path(path).exists() or any(Path(path).rglob("*.sbow.mat")):
        return False
    return open_source(path, columns=Columns(label_column)) is not None
