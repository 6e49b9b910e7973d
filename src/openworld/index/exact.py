"""Exact nearest-mean search by matrix products."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]


class ExactIndex:
    """All class means in one matrix; distances to them come from one matrix product.

    The search ranks the means by ``|mu|^2 - 2 z.mu``; the distances it returns are computed anew from
    the differences ``z - mu``, so they lose nothing to cancellation and do not depend on which other
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
    def _double(self) -> tuple[Floats, Floats]:
        return self._prepared(self.means)

    @cached_property
    def _single(self) -> tuple[Floats, Floats]:
        return self._prepared(self.means.astype(np.float32))

    @staticmethod
    def _prepared(means: Floats) -> tuple[Floats, Floats]:
        return means, np.einsum("ij,ij->i", means, means)

    def _rank(self, samples: Floats) -> tuple[Floats, Floats]:
        """Return the means and ``|mu|^2 - 2 z.mu`` for every sample and mean."""
        means, squared_norms = self._single if samples.dtype == np.float32 else self._double
        ranks = samples @ means.T
        ranks *= -2
        ranks += squared_norms
        return means, ranks

    def nearest(self, samples: Floats, n: int = 1) -> tuple[Floats, NDArray[np.intp]]:
        """Find the n nearest means of each sample.

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
        means, ranks = self._rank(samples)
        if n == 1:
            positions = ranks.argmin(axis=1)[:, np.newaxis]
        else:
            # One candidate more than asked for: where two means tie at the edge, both are seen.
            kept = min(n + 1, len(means))
            positions = np.sort(np.argpartition(ranks, kept - 1, axis=1)[:, :kept], axis=1)
        differences = means[positions]
        differences -= samples[:, np.newaxis, :]
        distances = np.sqrt(np.einsum("ijk,ijk->ij", differences, differences))
        if n == 1:
            return distances, positions
        order = np.argsort(distances, axis=1, kind="stable")[:, :n]
        return np.take_along_axis(distances, order, axis=1), np.take_along_axis(positions, order, axis=1)

    def squared_distances(self, samples: Floats) -> Floats:
        """Return the squared distance of every sample to every mean, shape (n_samples, K)."""
        ranks = self._rank(samples)[1]
        ranks += np.einsum("ij,ij->i", samples, samples)[:, np.newaxis]
        return np.maximum(ranks, 0, out=ranks)
