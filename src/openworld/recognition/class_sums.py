"""Sums and scatter of the samples of each class: the inner loops of `ClassStatistics`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

_NUMBERS_AT_ONCE = 1 << 22  # the float64 copy stays small: 32 MiB. The system takes long to give larger ones.
_CACHED_NUMBERS = 1 << 19  # few enough to stay in a processor's cache
# Scatter matrices of up to this many numbers are computed per sample, without a loop over classes.
_SMALL_SCATTER = 16
_LARGE = 512  # number of features from which a few rows are stored beside the scatter matrix
_MOST_ROWS = 64


class ClassSums:
    """Sums over the samples of each class, computed for a bounded number of samples at a time.

    All sums are float64 whatever the type of the samples.

    Parameters
    ----------
    samples : array of shape (n, D)
    codes : array of shape (n,)
        The class of each sample, as a number below `n_classes`.
    weights : array of shape (n,), optional
        By default 1 for each sample.
    n_classes : int
    """

    def __init__(self, samples: NDArray[Any], codes: Codes, weights: Floats | None, n_classes: int) -> None:
        self.samples, self.codes, self.weights = samples, codes, weights
        self.counts = np.bincount(codes, weights, n_classes).astype(np.float64)
        self._order = np.argsort(codes, kind="stable")

    def _pieces(self, numbers: int) -> Iterator[Codes]:
        n_rows = max(1, numbers // max(1, self.samples.shape[1]))
        for start in range(0, len(self._order), n_rows):
            yield self._order[start : start + n_rows]

    def sums(self) -> Floats:
        """Return the sum of each class, shape (K, D)."""
        return self._sum_of(lambda piece: self.samples[piece].astype(np.float64), self.samples.shape[1])

    def _sum_of(self, rows_of: Callable[[Codes], Floats], width: int) -> Floats:
        """Sum the rows that `rows_of` computes, per class, by a product with the sparse indicator matrix."""
        sums = np.zeros((len(self.counts), width))
        for piece in self._pieces(_CACHED_NUMBERS):
            present, starts = np.unique(self.codes[piece], return_index=True)
            weights = np.ones(len(piece)) if self.weights is None else self.weights[piece]
            belongs = csr_array((weights, np.arange(len(piece)), np.append(starts, len(piece))))
            sums[present] += belongs @ rows_of(piece)
        return sums

    def scatter(self, means: Floats) -> PooledScatter:
        """Return the scatter of all samples, each about the mean of its class."""
        pieces = list(self._pieces(_NUMBERS_AT_ONCE))
        deviations = np.empty((max(map(len, pieces), default=0), means.shape[1]))
        if len(pieces) <= 1:
            return PooledScatter.of(self._deviations(self._order, means, deviations))
        scatter = np.zeros((means.shape[1],) * 2)
        products = np.empty_like(scatter)
        for piece in pieces:  # into the same arrays: new ones of this size take the system long to give
            some = self._deviations(piece, means, deviations[: len(piece)])
            scatter += np.matmul(some.T, some, out=products)
        return PooledScatter(np.empty((0, len(scatter))), scatter)

    def class_scatters(self, means: Floats) -> Floats:
        """Return the scatter of each class about its mean, shape (K, D, D)."""
        n_classes, n_features = means.shape
        if n_features**2 <= _SMALL_SCATTER:

            def squares(piece: Codes) -> Floats:
                centered = self.samples[piece] - means[self.codes[piece]]
                return np.asarray(np.einsum("ij,ik->ijk", centered, centered)).reshape(len(piece), -1)

            return self._sum_of(squares, n_features**2).reshape(n_classes, n_features, n_features)
        scatters = np.empty((n_classes, n_features, n_features))
        ends = np.cumsum(np.bincount(self.codes, minlength=n_classes))
        for code, end in enumerate(ends):
            start = ends[code - 1] if code else 0
            rows = self._order[start:end]
            deviations = self._deviations(rows, means, np.empty((len(rows), n_features)))
            np.matmul(deviations.T, deviations, out=scatters[code])
        return scatters

    def _deviations(self, rows: Codes, means: Floats, out: Floats) -> Floats:
        """Return samples less the means of their classes, times the roots of their weights."""
        at_once = max(1, _CACHED_NUMBERS // max(1, means.shape[1]))
        for start in range(0, len(rows), at_once):
            some = rows[start : start + at_once]
            centered = np.subtract(
                self.samples[some], means[self.codes[some]], out=out[start : start + at_once]
            )
            if self.weights is not None:
                centered *= np.sqrt(self.weights[some])[:, np.newaxis]
        return out


@dataclass(frozen=True)
class PooledScatter:
    """A sum of scatter matrices, ``matrix + rows^T rows``; never changed in place.

    Learning a few samples adds rows and shares the matrix, which costs neither the time nor the memory of
    another matrix, so many such changes can be undone. When there are too many rows, they are added to a new
    matrix; when that happens depends only on what was added, in which order.

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
        """The arrays that it holds."""
        return [self.rows] if self.matrix is None else [self.rows, self.matrix]

    @property
    def trace(self) -> float:
        """The trace of the scatter."""
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
        return self._of_matrix(self.total - other.total)

    def _with_few_rows(self) -> PooledScatter:
        n_rows, n_features = self.rows.shape
        if n_features >= _LARGE and n_rows <= _MOST_ROWS:
            return self
        return self._of_matrix(self.total)

    def _of_matrix(self, matrix: Floats) -> PooledScatter:
        no_rows = np.empty((0, self.rows.shape[1]))  # a slice of the rows would keep them in memory
        return PooledScatter(no_rows, matrix)
