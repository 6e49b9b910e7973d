"""Visual words of the ILSVRC'10 competition (`.sbow.mat` files)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat

from openworld.data.errors import DataError

N_WORDS = 1000


def read_visual_words(folder: Path, *, n_words: int = N_WORDS) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Read visual-word counts from every `.sbow.mat` file below a folder.

    Each file holds the pictures of one class in a struct array `image_sbow`, whose field `sbow.word` has
    the number of the visual word (from 0) at each location of the picture. The class is the file's name
    up to the first dot, for example `n01440764`.

    Returns
    -------
    X : float32 array of shape (n, n_words), counts
    y : array of shape (n,)
    """
    histograms, labels = [], []
    for path in sorted(folder.rglob("*.sbow.mat")):
        for words in _words(path):
            if words.size and (words.min() < 0 or words.max() >= n_words):
                raise DataError(f"{path}: a visual word lies outside 0..{n_words - 1}.")
            histograms.append(np.bincount(words, minlength=n_words).astype(np.float32))
            labels.append(path.name.split(".")[0])
    if not histograms:
        raise DataError(f"{folder}: no visual words found in its .sbow.mat files.")
    return np.stack(histograms), np.array(labels)


def _words(path: Path) -> list[NDArray[np.intp]]:
    try:
        pictures = np.atleast_1d(loadmat(path, squeeze_me=True, struct_as_record=False)["image_sbow"])
        return [np.atleast_1d(picture.sbow.word).astype(np.intp) for picture in pictures]
    except Exception as error:  # a damaged file can raise any error
        raise DataError(f"{path}: not an ILSVRC'10 file of visual words ({error}).") from error
