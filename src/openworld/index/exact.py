"""Exact nearest-mean search by matrix products."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Positions = NDArray[np.intp]


class _Prepared(NamedTuple):
    """The means in one floating point type, as seen from an origin in their midst."""

    origin: Floats
    means: Floats
    squared_norms: Floats


class ExactIndex:
    """All class means in one matrix; distances to them come from one matrix product.

    The search ranks the means by ``|mu|^2 - 2 z.mu``, with the origin moved into the midst of the means
    so that a large offset of the features costs no accuracy. The distances that are returned are computed
    anew from the differences ``z - mu``, and so are those of means whose ranks are too close to be told
    apart: they lose nothing to cancellation, and the answer for a sample does not depend on which other
    samples were asked about. Equal distances go to the mean that stands first.

    Work is done in the type of the samples: float32 samples are searched in float32.

    Parameters
    ----------
    means : array of shape (K, m)
        The projected class means; kept by reference, not to be changed afterwards.
    """

    def __init__(self, means: NDArray[np.float64]) -> None:
        self.means = means

    def __len__(self) -> int:
        return len(self.means)

    @cached_property
    def _double(self) -> _Prepared:
        return self._prepared(np.dtype(np.float64))

    @cached_property
    def _single(self) -> _Prepared:
        return self._prepared(np.dtype(np.float32))

    def _prepared(self, dtype: np.dtype[Any]) -> _Prepared:
        origin = self.means.mean(axis=0)
        spread = np.abs(self.means - origin).max(initial=0)
        if spread > 0:
            # Rounded to a power of two, so that whole numbers stay whole and equal distances stay equal.
            step = np.ldexp(1.0, np.frexp(spread)[1] - 1)
            origin = np.round(origin / step) * step
        origin = origin.astype(dtype)
        means = (self.means - origin).astype(dtype)
        return _Prepared(origin, means, np.einsum("ij,ij->i", means, means))

    def _rank(self, samples: Floats) -> tuple[_Prepared, Floats, Floats, Floats]:
        """Return the means, z as seen from their origin, ``|mu|^2 - 2 z.mu`` for each mean, and ``|z|^2``."""
        prepared = self._single if samples.dtype == np.float32 else self._double
        samples = samples - prepared.origin
        # Samples so far away that products overflow have infinite distances, whatever their ranks.
        with np.errstate(over="ignore", invalid="ignore"):
            ranks = samples @ prepared.means.T
            ranks *= -2
            ranks += prepared.squared_norms
        return prepared, samples, ranks, np.einsum("ij,ij->i", samples, samples)

    def nearest(self, samples: Floats, n: int = 1) -> tuple[Floats, Positions]:
        """Find the n nearest means of each sample, or all means if there are fewer.

        Parameters
        ----------
        samples : float32 or float64 array of shape (n_samples, m)
        n : int, default=1

        Returns
        -------
        distances : array of shape (n_samples, n)
            Euclidean, ascending.
        positions : array of shape (n_samples, n)
            Rows of `means`.
        """
        if n < 1:
            raise ValueError(f"n must be at least 1; got {n}.")
        (_, means, squared_norms), samples, ranks, squared_lengths = self._rank(samples)
        # Rounding moves a rank, and a distance computed anew, by at most (m + 8) eps / 2 (|z| + |mu|)^2.
        error = (means.shape[1] + 8) * np.finfo(ranks.dtype).eps
        slack = 4 * error * (squared_lengths + squared_norms.max())
        positions, doubtful = _smallest(ranks, min(n, len(means)), slack)
        distances, positions = _by_distance(samples, means, positions)
        for i, candidates in doubtful:
            found = _by_distance(samples[i : i + 1], means, candidates[np.newaxis])
            distances[i], positions[i] = found[0][0, :n], found[1][0, :n]
        return distances, positions

    def squared_distances(self, samples: Floats) -> Floats:
        """Return the squared distance of every sample to every mean, shape (n_samples, K)."""
        _, _, ranks, squared_lengths = self._rank(samples)
        ranks += squared_lengths[:, np.newaxis]
        return np.maximum(ranks, 0, out=ranks)


def _smallest(ranks: Floats, n: int, slack: Floats) -> tuple[Positions, list[tuple[int, Positions]]]:
    """Return the positions of the n smallest ranks of each row, and the doubtful rows with candidates.

    A row is doubtful where a rank that was left out is within the slack of one that was taken.
    """
    rows = np.arange(len(ranks))
    if n == ranks.shape[1]:
        return np.tile(np.arange(n), (len(ranks), 1)), []
    if n == 1:
        first = ranks.argmin(axis=1)
        positions, taken = first[:, np.newaxis], ranks[rows, first]
        ranks[rows, first] = np.inf
        left_out = ranks.min(axis=1)
        ranks[rows, first] = taken
    else:
        parted = np.argpartition(ranks, n, axis=1)
        positions, left_out = np.sort(parted[:, :n], axis=1), ranks[rows, parted[:, n]]
        taken = np.take_along_axis(ranks, positions, axis=1).max(axis=1)
    with np.errstate(invalid="ignore"):
        edge = taken + slack
    doubtful = np.flatnonzero(left_out <= edge)
    return positions, [(int(i), np.flatnonzero(ranks[i] <= edge[i])) for i in doubtful]


def _by_distance(samples: Floats, means: Floats, positions: Positions) -> tuple[Floats, Positions]:
    """Return the distances of each sample to the means at its positions, ascending, and the positions."""
    differences = means[positions]
    differences -= samples[:, np.newaxis, :]
    distances = np.sqrt(np.einsum("ijk,ijk->ij", differences, differences))
    if positions.shape[1] == 1:
        return distances, positions
    order = np.argsort(distances, axis=1, kind="stable")
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(positions, order, axis=1)
