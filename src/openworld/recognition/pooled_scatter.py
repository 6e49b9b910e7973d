"""PooledScatter: the within-class scatter of all classes, to which a few samples are added at little cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LARGE = 512  # features from which a few rows are kept beside the matrix
_MOST_ROWS = 64


@dataclass(frozen=True)
class PooledScatter:
    """A sum of scatter matrices, ``matrix + rows^T rows``; never changed in place.

    Learning a few samples adds rows and shares the matrix, which takes neither the time nor the memory of
    another one, so that many such changes can be undone. Once there are too many rows, they are added to a
    new matrix. When that happens depends only on what was added, in which order.

    Attributes
    ----------
    rows : array of shape (n, D)
    matrix : array of shape (D, D), or None for zeros
    """

    rows: Floats
    matrix: Floats | None = None

    @classmethod
    def of(cls, rows: Floats) -> PooledScatter:
        """Return the scatter of deviations from a mean."""
        return cls(rows)._with_few_rows() if len(rows) else cls(rows)

    @property
    def total(self) -> Floats:
        """The scatter, shape (D, D)."""
        if self.matrix is None:
            return np.asarray(self.rows.T @ self.rows)
        return self.matrix + self.rows.T @ self.rows if len(self.rows) else self.matrix

    @property
    def arrays(self) -> list[Floats]:
        """What it consists of."""
        return [self.rows] if self.matrix is None else [self.rows, self.matrix]

    @property
    def trace(self) -> float:
        """The sum of its diagonal."""
        of_matrix = 0.0 if self.matrix is None else float(np.trace(self.matrix))
        return of_matrix + float(np.einsum("ij,ij->", self.rows, self.rows))

    def __add__(self, other: PooledScatter) -> PooledScatter:
        if not len(other.rows) and other.matrix is None:
            return self
        matrices = [part.matrix for part in (self, other) if part.matrix is not None]
        matrix = matrices[0] + matrices[1] if len(matrices) == 2 else matrices[0] if matrices else None
        return PooledScatter(np.concatenate([self.rows, other.rows]), matrix)._with_few_rows()

    def __sub__(self, other: PooledScatter) -> PooledScatter:
        if not len(other.rows) and other.matrix is None:
            return self
        return PooledScatter(_no_rows(self), self.total - other.total)

    def _with_few_rows(self) -> PooledScatter:
        n_rows, n_features = self.rows.shape
        if n_features >= _LARGE and n_rows <= _MOST_ROWS:
            return self
        return PooledScatter(_no_rows(self), self.total)


def _no_rows(scatter: PooledScatter) -> Floats:
    return np.empty((0, scatter.rows.shape[1]))  # a slice of the rows would keep them in memory
