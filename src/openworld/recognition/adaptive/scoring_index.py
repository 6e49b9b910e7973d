"""Search of the best scores among very many classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.index import InvertedLists, Training, candidates, train

Floats = NDArray[np.float32]
Rows = NDArray[np.intp]

_CANDIDATES = 8


class ScoreIndex:
    """Vectors of classes with their penalties, in inverted lists.

    The largest score ``s = x v - p`` of a direction x is the smallest distance between x with a zero appended
    and v with ``sqrt(q - q_0)`` appended, where ``q = 2 p - |v|^2`` and q_0 is the least of these: its square
    is ``1 - q_0 - 2 s``.

    Parameters
    ----------
    vectors : array of shape (K, L)
    penalties : array of shape (K,)
    training : Training, optional
        Of an index that was saved; by default it is computed.
    """

    def __init__(self, vectors: Floats, penalties: Floats, training: Training | None = None) -> None:
        self._least = float(_excess(vectors, penalties).min())

        def appended(rows: Any) -> Floats:
            return self._appended(vectors[rows], penalties[rows])

        self._lists = InvertedLists(training or train(appended, len(vectors)), appended)

    @property
    def training(self) -> Training:
        """What a later index of these means need not compute again."""
        return self._lists.training

    def _appended(self, vectors: Floats, penalties: Floats) -> Floats:
        # A class learned later may have a smaller excess; it is then found as if it had the least one.
        last = np.sqrt(np.maximum(_excess(vectors, penalties) - self._least, 0))
        return np.ascontiguousarray(np.column_stack([vectors, last]), dtype=np.float32)

    def update(self, rows: Rows, vectors: Floats, penalties: Floats) -> None:
        """Put other vectors into these rows, which are in ascending order; those behind the last are new."""
        vectors, new = self._appended(vectors, penalties), rows >= len(self.training.lists)
        if not new.all():
            self._lists.replace(rows[~new], vectors[~new])
        self._lists.add(vectors[new])

    def restorer(self, rows: Rows) -> Callable[[], None]:
        """Return a function that undoes the next update of these rows."""
        return self._lists.restorer(rows)

    def largest(self, directions: Floats, n: int, threshold: float) -> Rows:
        """Return the rows of some classes, the n with the largest scores among them, shape (n_samples, k).

        Where there are fewer, the row is -1. Samples none of whose scores is above the threshold are looked
        up in more lists, except in those that hold none above it either.
        """
        seen = np.column_stack([directions, np.zeros(len(directions), dtype=np.float32)])
        boundary = np.sqrt(max(1 - self._least - 2 * threshold, 0.0))
        n = min(n, len(self.training.lists))
        return candidates(self._lists, seen, n, float(boundary), max(_CANDIDATES, n + 1))[1]


def _excess(vectors: Floats, penalties: Floats) -> Floats:
    return np.asarray(2 * penalties - np.einsum("ij,ij->i", vectors, vectors))
