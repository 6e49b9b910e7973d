"""The classes with the largest scores among very many, found without the scores of all the others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.index import InvertedLists, Training, candidates, train

Floats = NDArray[np.float32]
Rows = NDArray[np.intp]

_CANDIDATES = 8


class ScoreIndex:
    """Directions of class means with their penalties, in inverted lists.

    The largest score ``s = cos(x, mu) - p`` is the smallest distance between x with a zero appended and mu
    with ``sqrt(2 (p - p_0))`` appended, where p_0 is the least penalty: its square is ``2 (1 - p_0 - s)``.

    Parameters
    ----------
    unit_means : array of shape (K, L)
    penalties : array of shape (K,)
    training : Training, optional
        Where it was saved; by default found anew.
    """

    def __init__(self, unit_means: Floats, penalties: Floats, training: Training | None = None) -> None:
        self._least = penalties.min()

        def vectors(rows: Any) -> Floats:
            return self._appended(unit_means[rows], penalties[rows])

        self._lists = InvertedLists(training or train(vectors, len(unit_means)), vectors)

    @property
    def training(self) -> Training:
        """What a later index of these means need not find anew."""
        return self._lists.training

    def _appended(self, unit_means: Floats, penalties: Floats) -> Floats:
        # A class learnt later may have a smaller penalty; it is then found as if it had the least one.
        last = np.sqrt(2 * np.maximum(penalties - self._least, 0))
        return np.ascontiguousarray(np.column_stack([unit_means, last]), dtype=np.float32)

    def update(self, rows: Rows, unit_means: Floats, penalties: Floats) -> None:
        """Put other means into these rows, which are in ascending order; those behind the last are new."""
        vectors, new = self._appended(unit_means, penalties), rows >= len(self.training.lists)
        if not new.all():
            self._lists.replace(rows[~new], vectors[~new])
        self._lists.add(vectors[new])

    def largest(self, directions: Floats, n: int, threshold: float) -> Rows:
        """Return the rows of some classes, the n with the largest scores among them, shape (n_samples, k).

        Where there are fewer, the row is -1. Samples none of whose scores is above the threshold are looked
        up in more lists, except in those that hold none above it either.
        """
        seen = self._appended(directions, np.full(len(directions), self._least))
        boundary = np.sqrt(max(2 * (1 - float(self._least) - threshold), 0.0))
        n = min(n, len(self.training.lists))
        return candidates(self._lists, seen, n, float(boundary), max(_CANDIDATES, n + 1))[1]
