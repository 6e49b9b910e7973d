"""Feature files of the ILSVRC'10 competition: dense SIFT (`.vldsift.mat`), visual words (`.sbow.mat`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat

from openworld.data.tables import DataError

N_WORDS = 1000
SIFT_LENGTH = 128


@dataclass(frozen=True)
class DenseDescriptors:
    """The dense SIFT descriptors of one picture.

    Attributes
    ----------
    name : str
        Of the picture, as the file has it, such as `n01440764_10026`; "" where it has none.
    label : str
        The file's name up to the first dot, such as `n01440764`.
    places : float32 array of shape (n, 2)
        x and y of each descriptor, in the picture scaled to at most 300 pixels a side.
    scales : array of shape (n,)
        The number of times the picture was halved: 0, 1 or 2.
    norms : float32 array of shape (n,)
        How long each descriptor was before it was normalized: how much there was to see.
    descriptors : float32 array of shape (n, 128)
    """

    name: str
    label: str
    places: NDArray[np.float32]
    scales: NDArray[Any]
    norms: NDArray[np.float32]
    descriptors: NDArray[np.float32]


def read_descriptors(folder: Path) -> Iterator[DenseDescriptors]:
    """Read the descriptors in every `.vldsift.mat` file below a folder, one picture after the other.

    Each file holds the pictures of one class in a struct array `image_vldsift`, whose field `vldsift` is a
    struct with a column per descriptor: `x`, `y`, `scale`, `norm` (1 x n) and `desc` (128 x n).
    """
    files = sorted(folder.rglob("*.vldsift.mat"))
    if not files:
        raise DataError(f"{folder}: there are no .vldsift.mat files in it.")
    for path in files:
        label = path.name.split(".")[0]
        for picture in _structs(path, "image_vldsift", "dense SIFT"):
            try:
                yield _described(picture, label)
            except Exception as error:  # a foreign file shows itself in many ways
                raise DataError(f"{path}: not an ILSVRC'10 file of dense SIFT ({error}).") from error


def _described(picture: Any, label: str) -> DenseDescriptors:
    found = picture.vldsift
    x, y, scales, norms = (np.atleast_1d(getattr(found, name)) for name in ("x", "y", "scale", "norm"))
    descriptors = np.asarray(found.desc, dtype=np.float32).reshape(SIFT_LENGTH, -1).T
    if not len(x) == len(y) == len(scales) == len(norms) == len(descriptors):
        raise ValueError("its fields are of different lengths")
    places = np.stack([x, y], axis=1).astype(np.float32)
    return DenseDescriptors(
        str(getattr(picture, "ID", "")), label, places, scales, norms.astype(np.float32), descriptors
    )


def read_visual_words(
    folder: Path, *, n_words: int = N_WORDS, progress: Callable[[int, int], None] | None = None
) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Read visual-word counts from every `.sbow.mat` file below a folder.

    Each file holds the pictures of one class in a struct array `image_sbow`, whose field `sbow.word` has
    the number of the visual word (from 0) at each place of the picture. The class is the file's name
    up to the first dot, for example `n01440764`.

    Returns
    -------
    X : float32 array of shape (n, n_words), counts
    y : array of shape (n,)
    """
    files = sorted(folder.rglob("*.sbow.mat"))
    histograms, labels = [], []
    for i, path in enumerate(files):
        for words in _words(path):
            if words.size and (words.min() < 0 or words.max() >= n_words):
                raise DataError(f"{path}: a visual word lies outside 0..{n_words - 1}.")
            histograms.append(np.bincount(words, minlength=n_words).astype(np.float32))
            labels.append(path.name.split(".")[0])
        if progress is not None:
            progress(i + 1, len(files))
    if not histograms:
        raise DataError(f"{folder}: no visual words found in its .sbow.mat files.")
    return np.stack(histograms), np.array(labels)


def _words(path: Path) -> list[NDArray[np.intp]]:
    pictures = _structs(path, "image_sbow", "visual words")
    try:
        return [np.atleast_1d(picture.sbow.word).astype(np.intp) for picture in pictures]
    except Exception as error:  # a foreign file shows itself in many ways
        raise DataError(f"{path}: not an ILSVRC'10 file of visual words ({error}).") from error


def _structs(path: Path, name: str, what: str) -> NDArray[Any]:
    """Return the struct array of a file, one struct per picture."""
    try:
        return np.atleast_1d(loadmat(path, squeeze_me=True, struct_as_record=False)[name])
    except Exception as error:  # a foreign or damaged file shows itself in many ways
        raise DataError(f"{path}: not an ILSVRC'10 file of {what} ({error}).") from error
