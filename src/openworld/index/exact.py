"""Exact nearest-mean search by matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from openworld.index.growing_rows import GrowingRows, Restorer
from openworld.index.protocol import Floats, Positions

# Numbers processed at a time, few enough to stay in the processor's cache.
_BLOCK = 1 << 15
_RANKS_AT_ONCE = 1 << 21


class _Prepared:
    """The means in one floating point type, relative to the origin."""

    def __init__(self, means: Floats, origin: Floats, dtype: np.dtype[Any]) -> None:
        self.origin, self._dtype = origin.astype(dtype), dtype
        self.means, self.squared_norms = (GrowingRows(rows, dtype) for rows in self._seen(means))

    def _seen(self, means: Floats) -> tuple[Floats, Floats]:
        """Return means relative to the origin, and their squared norms."""
        centered = np.asarray((means - self.origin).astype(self._dtype))
        return centered, _squares(centered)

    def add(self, means: Floats) -> None:
        centered, squared_norms = self._seen(means)
        self.means.extend(centered)
        self.squared_norms.extend(squared_norms)

    def remove(self, position: int) -> None:
        self.means.remove(position)
        self.squared_norms.remove(position)

    def replace(self, positions: Positions, means: Floats) -> None:
        self.means.rows[positions], self.squared_norms.rows[positions] = self._seen(means)


class ExactIndex:
    """Exact index: all class means in one matrix, searched by a matrix product.

    The search ranks the means by ``|mu|^2 - 2 z.mu``, relative to an origin among the means so that a large
    offset of the features costs no accuracy. Distances are then computed from the differences ``z - mu``, in
    float64 where float32 would lose accuracy, and so are those of means whose ranks are too close to decide.
    So there is no cancellation, and the result for a sample does not depend on the other samples of the call.

    The matrix product uses the dtype of the samples: float32 samples are ranked in float32.

    Parameters
    ----------
    means : array of shape (K, m)
        The projected class means.
    origin : array of shape (m,), optional
        A point among the means, by default `central_point`. It does not change when means are added.
    names : sequence, optional
        The names of the means, kept by reference; the caller adds and removes names together with means.
        Among equally near means the one with the smallest name comes first, or without names the one with
        the smallest position.
    """

    def __init__(
        self,
        means: NDArray[np.float64],
        origin: NDArray[np.float64] | None = None,
        names: Sequence[Any] | None = None,
    ) -> None:
        self._means = GrowingRows(means)
        self.origin = central_point(means) if origin is None else origin
        self._names = names
        self._prepared: dict[np.dtype[Any], _Prepared] = {}

    @property
    def means(self) -> NDArray[np.float64]:
        """The means by position, as a view."""
        return self._means.rows

    def __len__(self) -> int:
        return len(self._means)

    # -- changing -----------------------------------------------------------------------------------

    def add(self, means: Floats) -> None:
        """Append means at the end."""
        self._means.extend(means)
        for prepared in self._prepared.values():
            prepared.add(means)

    def remove(self, position: int) -> None:
        """Remove one mean; the last one takes its position."""
        self._means.remove(position)
        for prepared in self._prepared.values():
            prepared.remove(position)

    def replace(self, positions: Positions, means: Floats) -> None:
        """Replace the means at these positions."""
        self.means[positions] = means
        for prepared in self._prepared.values():
            prepared.replace(positions, means)

    def restorer(self, positions: Positions) -> Restorer:
        """Return a function that undoes appended means, and replacement or removal of the given ones."""
        restore_prepared = partial(vars(self).update, _prepared=dict(self._prepared))
        prepared = self._prepared.values()
        parts = [self._means, *(part for one in prepared for part in (one.means, one.squared_norms))]
        return Restorer([restore_prepared, *(part.restorer(positions) for part in parts)])

    # -- searching ----------------------------------------------------------------------------------

    def prepare(self, dtype: DTypeLike) -> None:
        """Compute now what the first search for samples of this dtype would otherwise compute."""
        self._prepared_for(np.dtype(dtype))

    def _prepared_for(self, dtype: np.dtype[Any]) -> _Prepared:
        """Return the means in the dtype of the samples, computed on first use."""
        dtype = np.dtype(np.float32 if dtype == np.float32 else np.float64)
        if dtype not in self._prepared:
            self._prepared[dtype] = _Prepared(self.means, self.origin, dtype)
        return self._prepared[dtype]

    def _rank(self, samples: Floats) -> tuple[Floats, Floats]:
        """Return ``|mu|^2 - 2 z.mu`` for every sample and mean, and ``|z|^2``, relative to the origin."""
        prepared = self._prepared_for(samples.dtype)
        centered = samples - prepared.origin
        # Samples for which products overflow have infinite distances, so their ranks do not matter.
        with np.errstate(over="ignore", invalid="ignore"):
            squared_norms = _squares(centered)
            centered *= -2
            ranks = centered @ prepared.means.rows.T
            ranks += prepared.squared_norms.rows
        return ranks, squared_norms

    def nearest(self, samples: Floats, n: int = 1, boundary: float | None = None) -> tuple[Floats, Positions]:
        """Find the n nearest means of each sample, or all means if there are fewer.

        Parameters
        ----------
        samples : float32 or float64 array of shape (n_samples, m)
        n : int, default=1
        boundary : float, optional
            Not used by exact search.

        Returns
        -------
        distances : array of shape (n_samples, n)
            Euclidean, ascending, in the dtype of the samples.
        positions : array of shape (n_samples, n)
            Rows of `means`.
        """
        if n < 1:
            raise ValueError(f"n must be at least 1; got {n}.")
        n_rows = max(16, _RANKS_AT_ONCE // len(self))
        blocks = [
            self._nearest(samples[start : start + n_rows], min(n, len(self)))
            for start in range(0, max(len(samples), 1), n_rows)
        ]
        return np.concatenate([d for d, _ in blocks]), np.concatenate([p for _, p in blocks])

    def _nearest(self, samples: Floats, n: int) -> tuple[Floats, Positions]:
        ranks, squared_norms = self._rank(samples)
        positions, doubtful = _smallest(ranks, squared_norms, n, samples.shape[1])
        if n == 1:
            distances = self._nearest_distances(samples, positions, ranks, squared_norms)
        else:
            distances, positions = self._by_distance(samples, positions)
        for i, candidates in doubtful:
            found = self._by_distance(samples[i : i + 1], candidates[np.newaxis])
            distances[i], positions[i] = found[0][0, :n], found[1][0, :n]
        with np.errstate(over="ignore"):
            return distances.astype(ranks.dtype, copy=False), positions

    def _nearest_distances(
        self, samples: Floats, positions: Positions, ranks: Floats, squared_norms: Floats
    ) -> Floats:
        """Return the distance of each sample to its nearest mean.

        For a sample that is not much nearer to the mean than to the origin, the difference of the coordinates
        relative to the origin is as exact as their dtype allows. The other samples are computed in float64.
        """
        prepared = self._prepared_for(samples.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            differences = samples - prepared.origin
            differences -= prepared.means.rows[positions[:, 0]]
            distances: Floats = np.sqrt(np.einsum("ij,ij->i", differences, differences))[:, np.newaxis]
            squared = np.take_along_axis(ranks, positions, axis=1)[:, 0] + squared_norms
            near = np.flatnonzero(~(squared_norms <= 16 * squared))
        if len(near):
            distances = distances.astype(np.float64)
            distances[near] = self._by_distance(samples[near], positions[near])[0]
        return distances

    def _by_distance(self, samples: Floats, positions: Positions) -> tuple[Floats, Positions]:
        """Return the distances of each sample to the means at its positions, sorted, and the positions."""
        distances = np.empty(positions.shape)
        n_rows = max(1, _BLOCK // max(1, positions.shape[1] * samples.shape[1]))
        for start in range(0, len(samples), n_rows):
            block = slice(start, start + n_rows)
            differences = self.means[positions[block]]
            differences -= samples[block, np.newaxis, :]
            np.einsum("ijk,ijk->ij", differences, differences, out=distances[block])
        np.sqrt(distances, out=distances)
        if positions.shape[1] == 1:
            return distances, positions
        order = np.argsort(distances, axis=1, kind="stable")
        distances = np.take_along_axis(distances, order, axis=1)
        positions = np.take_along_axis(positions, order, axis=1)
        if self._names is not None:
            for i in np.flatnonzero((distances[:, 1:] == distances[:, :-1]).any(axis=1)):
                positions[i] = self._by_name(distances[i], positions[i])
        return distances, positions

    def _by_name(self, distances: Floats, positions: Positions) -> list[int]:
        """Return the positions sorted by distance, then by name."""
        names = self._names or ()
        pairs = zip(distances.tolist(), positions.tolist(), strict=True)
        return [position for _, position in sorted(pairs, key=lambda pair: (pair[0], names[pair[1]]))]

    def squared_distances(self, samples: Floats) -> Floats:
        """Return the squared distance of every sample to every mean, shape (n_samples, K)."""
        ranks, squared_norms = self._rank(samples)
        with np.errstate(over="ignore", invalid="ignore"):
            ranks += squared_norms[:, np.newaxis]
        ranks[np.isinf(squared_norms)] = np.inf
        return np.maximum(ranks, 0, out=ranks)


def central_point(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a central point of the means, zero if there are none.

    It is the median of a sample of the means, not their average, so that an outlier does not move it.
    """
    if not len(means):
        return np.zeros(means.shape[1])
    sample = means[:: 1 + len(means) // 256]
    middle = (len(sample) - 1) // 2
    return np.array(np.partition(sample, middle, axis=0)[middle])


def _squares(rows: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def _smallest(
    ranks: Floats, squared_norms: Floats, n: int, n_dimensions: int
) -> tuple[Positions, list[tuple[int, Positions]]]:
    """Return the positions of the n smallest ranks of each row, and the doubtful rows with candidates.

    A row is doubtful if rounding may have changed which ranks are the n smallest.
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
        partitioned = np.argpartition(ranks, n, axis=1)
        positions, left_out = np.sort(partitioned[:, :n], axis=1), ranks[rows, partitioned[:, n]]
        taken = np.take_along_axis(ranks, positions, axis=1).max(axis=1)
    # Rounding changes a rank by at most (m + 8) eps / 2 (|z| + |mu|)^2, and two ranks are compared. The means
    # in question are about d = sqrt(taken + |z|^2) away, so |mu| is at most |z| + d.
    error = 4 * (n_dimensions + 8) * np.finfo(ranks.dtype).eps
    with np.errstate(over="ignore", invalid="ignore"):
        edge = taken + error * (3 * squared_norms + 2 * np.maximum(taken + squared_norms, 0))
    doubtful = np.flatnonzero(left_out <= edge)
    return positions, [(int(i), np.flatnonzero(ranks[i] <= edge[i])) for i in doubtful]
