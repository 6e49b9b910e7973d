"""Samples scored by the current model of OpenWorldRecognizer, a chunk of them at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.recognition.current_model import CurrentModel
from openworld.recognition.radial import lengths_of, radial_factor
from openworld.recognition.representation import Representation

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

# Samples are worked on so many at a time, and fewer where there are very many classes.
_CHUNK_ROWS, _CHUNK_SCORES = 1024, 1 << 24


def all_scores(
    model: CurrentModel, representation: Representation, samples: NDArray[Any]
) -> Iterator[tuple[Floats, Doubles | float]]:
    """Yield scores and radial factors of every class."""
    n_rows = int(np.clip(_CHUNK_SCORES // len(model.classes), 1, _CHUNK_ROWS))
    for start in range(0, len(samples), n_rows):
        chunk = samples[start : start + n_rows]
        yield model.scores(representation(chunk)), radial_factor(chunk, model.radii)


def best_scores(
    model: CurrentModel, representation: Representation, samples: NDArray[Any], n: int, threshold: float
) -> Iterator[tuple[Floats, Doubles | float, NDArray[np.intp] | None]]:
    """Yield scores and radial factors of the classes that may be the n best, and the positions of these.

    The positions are None where the scores are of all classes. Where no score is above the threshold, the
    best ones may be missing.
    """
    for start in range(0, len(samples), _CHUNK_ROWS):
        chunk = samples[start : start + _CHUNK_ROWS]
        found = None
        if model.index is not None:
            found = model.found(representation(chunk), lengths_of(chunk), n, threshold)
        if found is None:
            for scores, radial in all_scores(model, representation, chunk):
                yield scores, radial, None
        else:
            yield found[0], 1.0, found[1]
