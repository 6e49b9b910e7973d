"""Approximate nearest-mean search: the few lists near a sample, more of them where the answer is in doubt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from openworld.index.candidates import candidates
from openworld.index.exact import ExactIndex
from openworld.index.growing_rows import in_turn
from openworld.index.inverted_lists import InvertedLists, Singles, Training
from openworld.index.protocol import Floats, Positions
from openworld.index.training import train

_CANDIDATES = 8
_SAMPLES_AT_ONCE = 1024
# Samples farther away than this are looked up as if they were so far, which float32 can square.
_FARTHEST = 1e15


class ApproximateIndex(ExactIndex):
    """Class means in inverted lists, of which only those near a sample are searched.

    What the lists offer is measured exactly, as `ExactIndex` does: a distance that is returned is right, and
    the answer for a sample does not depend on which other samples were asked about. Only a nearer mean may
    have been missed. A sample in doubt is looked up in more lists, except in those that cannot hold a nearer
    mean by the triangle inequality.

    Means that are added go into the list of the nearest centroid. The centroids stay, so that a change costs
    little. Where many more means have come since the centroids were found, the lists are long and the search
    is slower, no less right: make a new index then.

    Parameters
    ----------
    means, origin, names
        As for `ExactIndex`.
    training : Training, optional
        Of an index that was saved; by default it is computed.
    """

    def __init__(
        self,
        means: NDArray[np.float64],
        origin: NDArray[np.float64] | None = None,
        names: Sequence[Any] | None = None,
        training: Training | None = None,
    ) -> None:
        super().__init__(means, origin, names)
        self._inverted = InvertedLists(training or train(self._vectors, len(self)), self._vectors)

    @property
    def training(self) -> Training:
        """What a later index of these means need not compute again."""
        return self._inverted.training

    def _vectors(self, positions: Any) -> Singles:
        """Return means as the lists keep them: in float32, as seen from the origin."""
        return self._seen(self.means[positions])

    def _seen(self, rows: Floats) -> Singles:
        with np.errstate(over="ignore", invalid="ignore"):
            seen = np.nan_to_num(rows - self.origin, posinf=_FARTHEST, neginf=-_FARTHEST)
        return np.ascontiguousarray(np.clip(seen, -_FARTHEST, _FARTHEST), dtype=np.float32)

    # faiss keeps its lists where Python cannot copy them: a copy fills its own.
    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in vars(self).items() if name != "_inverted"}
        return {**state, "training": self.training}

    def __setstate__(self, state: dict[str, Any]) -> None:
        training = state.pop("training")
        vars(self).update(state)
        self._inverted = InvertedLists(training, self._vectors)

    # -- changing -----------------------------------------------------------------------------------

    def add(self, means: Floats) -> None:
        """Append means; their positions follow the last one."""
        super().add(means)
        self._inverted.add(self._seen(means))

    def remove(self, position: int) -> None:
        """Remove one mean; the last one takes its position."""
        self._inverted.remove(position, self._seen(self.means[-1:]))
        super().remove(position)

    def replace(self, positions: Positions, means: Floats) -> None:
        """Put other means at these positions."""
        super().replace(positions, means)
        self._inverted.replace(positions, self._seen(means))

    def restorer(self, positions: Positions) -> Callable[[], None]:
        """Return a function that undoes appending means, and replacing or removing these ones."""
        return in_turn([super().restorer(positions), self._inverted.restorer(positions)])

    # -- searching ----------------------------------------------------------------------------------

    def prepare(self, dtype: DTypeLike) -> None:
        """Do nothing: the inverted lists are always ready."""

    def nearest(self, samples: Floats, n: int = 1, boundary: float | None = None) -> tuple[Floats, Positions]:
        """Find the n nearest means of each sample, or all means if there are fewer.

        Parameters
        ----------
        samples : float32 or float64 array of shape (n_samples, m)
        n : int, default=1
        boundary : float, optional
            The distance from which on a mean no longer counts. A sample for which none was found within it is
            looked up in more lists, except in those that hold none within it either.

        Returns
        -------
        distances : array of shape (n_samples, n)
            Euclidean, ascending, in the type of the samples.
        positions : array of shape (n_samples, n)
            Rows of `means`.
        """
        if n < 1:
            raise ValueError(f"n must be at least 1; got {n}.")
        n, reach = min(n, len(self)), np.inf
        if boundary is not None and boundary < _FARTHEST:
            reach = boundary
        blocks = [
            self._found(samples[start : start + _SAMPLES_AT_ONCE], n, reach, max(_CANDIDATES, n + 1))
            for start in range(0, max(len(samples), 1), _SAMPLES_AT_ONCE)
        ]
        return np.concatenate([d for d, _ in blocks]), np.concatenate([p for _, p in blocks])

    def _found(self, samples: Floats, n: int, boundary: float, k: int) -> tuple[Floats, Positions]:
        """Return the n nearest of k candidates, measured exactly."""
        seen = self._seen(samples)
        squared, near = candidates(self._inverted, seen, n, boundary, k)
        edge = _edge(squared[:, n - 1], seen)
        distances, positions = self._measured(samples, seen, near[:, :n])
        for i in np.flatnonzero(squared[:, n] <= edge):
            sample, among = samples[i : i + 1], near[i, squared[i] <= edge[i]]
            if len(among) == k < len(self):  # rounding, or equal means, may have left others out
                found = self._found(sample, n, boundary, min(8 * k, len(self) + 1))
            else:
                found = self._by_distance(sample, among[np.newaxis])
            distances[i], positions[i] = found[0][0, :n], found[1][0, :n]
        with np.errstate(over="ignore"):
            dtype = np.float32 if samples.dtype == np.float32 else np.float64
            return distances.astype(dtype, copy=False), positions

    def _measured(self, samples: Floats, seen: Singles, positions: Positions) -> tuple[Floats, Positions]:
        """Return the distances of each sample to the means at its positions, ascending, and the positions.

        As in exact search, float32 is as good for one mean of a float32 sample that is not much nearer to it
        than to the origin. The lists have the means in float32, so those in float64 need not be in memory.
        """
        if samples.dtype != np.float32 or positions.shape[1] > 1:
            return self._by_distance(samples, positions)
        differences = seen - self._inverted.vectors(positions[:, 0])
        squared = np.einsum("ij,ij->i", differences, differences)
        plain = np.einsum("ij,ij->i", seen, seen) <= 16 * squared
        plain &= np.abs(seen).max(axis=1, initial=0) < _FARTHEST
        distances = np.sqrt(squared, dtype=np.float64)[:, np.newaxis]
        rest = np.flatnonzero(~plain)
        distances[rest] = self._by_distance(samples[rest], positions[rest])[0]
        return distances, positions


def _edge(squared: Singles, seen: Singles) -> Singles:
    """Return the squared distances up to which rounding may have put a mean behind those this far away.

    Rounding to float32 moves a sample and a mean by eps / 2 of their lengths, and the sum of m squares by at
    most m eps of itself; a mean at distance d is at most d longer than the sample.
    """
    eps = np.finfo(np.float32).eps
    distances, lengths = np.sqrt(squared), np.linalg.norm(seen, axis=1)
    return np.asarray((distances + eps * ((seen.shape[1] + 8) * distances + 4 * lengths)) ** 2)
