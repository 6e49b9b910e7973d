"""Sums over the samples of each class: the inner loops of `ClassStatistics`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from openworld.recognition.pooled_scatter import PooledScatter

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

_NUMBERS_AT_ONCE = 1 << 20  # float64 copies stay small: 8 MiB each
# Scatter matrices of up to this many numbers are computed per sample, without a loop over classes.
_SMALL_SCATTER = 16


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

    def _pieces(self) -> Iterator[Codes]:
        n_rows = max(1, _NUMBERS_AT_ONCE // max(1, self.samples.shape[1]))
        for start in range(0, len(self._order), n_rows):
            yield self._order[start : start + n_rows]

    def sums(self) -> Floats:
        """Return the sum of each class, shape (K, D)."""
        return self._sum_of(lambda piece: self.samples[piece].astype(np.float64), self.samples.shape[1])

    def _sum_of(self, rows_of: Callable[[Codes], Floats], width: int) -> Floats:
        """Sum the rows that `rows_of` computes, per class, by a product with the sparse indicator matrix."""
        sums = np.zeros((len(self.counts), width))
        for piece in self._pieces():
            present, starts = np.unique(self.codes[piece], return_index=True)
            weights = np.ones(len(piece)) if self.weights is None else self.weights[piece]
            belongs = csr_array((weights, np.arange(len(piece)), np.append(starts, len(piece))))
            sums[present] += belongs @ rows_of(piece)
        return sums

    def scatter(self, means: Floats) -> PooledScatter:
        """Return the scatter of all samples, each about the mean of its class."""
        pieces = list(self._pieces())
        if len(pieces) == 1:
            return PooledScatter.of(self._deviations(pieces[0], means))
        scatter = np.zeros((self.samples.shape[1],) * 2)
        for piece in pieces:
            deviations = self._deviations(piece, means)
            scatter += deviations.T @ deviations
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
            deviations = self._deviations(self._order[start:end], means)
            np.matmul(deviations.T, deviations, out=scatters[code])
        return scatters

    def _deviations(self, rows: Codes, means: Floats) -> Floats:
        """Return samples less the means of their classes, times the roots of their weights."""
        centered = means[self.codes[rows]]
        np.subtract(self.samples[rows], centered, out=centered)
        if self.weights is not None:
            centered *= np.sqrt(self.weights[rows])[:, np.newaxis]
        return centered
