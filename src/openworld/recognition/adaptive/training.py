"""What an OpenWorldRecognizer learns at once."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from openworld.recognition.adaptive.groups import Hashes


class TrainingBatch(NamedTuple):
    """Validated samples to learn.

    Attributes
    ----------
    samples : array of shape (n, D)
    labels : array of shape (n,)
    groups : array of shape (n,), optional
        The hashes of their groups.
    unknowns : array of shape (m, D), optional
        Samples of no class.
    """

    samples: NDArray[Any]
    labels: NDArray[Any]
    groups: Hashes | None = None
    unknowns: NDArray[Any] = np.empty(0)

    @classmethod
    def split(cls, recognizer: Any, samples: NDArray[Any], labels: NDArray[Any], groups: Hashes) -> Self:
        """Return samples, those with the unknown label apart if the recognizer is to learn from them."""
        unknown = np.asarray(labels == recognizer.unknown_label_)
        if not recognizer.learn_unknowns or not unknown.any():
            return cls(samples, labels, groups)
        return cls(samples[~unknown], labels[~unknown], groups[~unknown], samples[unknown])
