"""Data sets for experiments: those of `openworld.data`, and the letters in the paper's feature sets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.data.dataset import Dataset, load_dataset
from openworld.data.letters import load_letters
from openworld.features import HOG, LBP, DenseSIFT


def _descriptors(extract: Any) -> NDArray[np.float32]:
    """Return the descriptors of each letter, those of all places of the picture one after the other."""
    return np.stack([extract(image).ravel() for image in load_letters().images]).astype(np.float32)


# A letter is too small for visual words; its descriptors are few and stand at fixed places.
FEATURE_SETS = {
    "letters-sift": DenseSIFT(step=5, radii=(4,)).descriptors,
    "letters-hog": HOG(cell=4).descriptors,
    "letters-lbp": LBP(cell=7).descriptors,
}


def load(name: str) -> Dataset:
    """Load a data set by name or path; `letters-sift`, `letters-hog` and `letters-lbp` are known here too."""
    if name in FEATURE_SETS:
        letters = load_letters()
        return Dataset(name, _descriptors(FEATURE_SETS[name]), letters.labels, letters.faces)
    return load_dataset(name)
