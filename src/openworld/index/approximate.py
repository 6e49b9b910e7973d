"""Approximate nearest-mean search in a few inverted lists near the sample, and in more if needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from openworld.index.candidates import candidates
from openworld.index.exact import ExactIndex
from openworld.index.growing_rows import Restorer
from openworld.index.inverted_lists import InvertedLists, Singles, Training
from openworld.index.protocol import Floats, Positions
from openworld.index.training import train

_CANDIDATES = 8
_SAMPLES_AT_ONCE = 1024
# Coordinates are clipped to this value, whose square float32 can still represent.
_FARTHEST = 1e15


class ApproximateIndex(ExactIndex):
    """Approximate index: class means in inverted lists, of which only those near a sample are searched.

    Distances to the candidates in the lists are computed exactly, as in `ExactIndex`: returned distances are
    correct, and the result for a sample does not depend on the other samples of the call. The only possible
    error is a missed nearer mean. If the result is in doubt, more lists are searched, except those that
    cannot hold a nearer mean by the triangle inequality.

    A new mean goes into the list of its nearest centroid. The centroids do not change, so updates are cheap.
    After the number of means has grown many times over, the lists are long and the search is slower, but not
    less accurate: create a new index then.

    Parameters
    ----------
    means, origin, names
        As for `ExactIndex`.
    training : Training, optional
        The saved training of an index; by default it is computed.
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
        """The centroids and list assignments, to save with a model."""
        return self._inverted.training

    def _vectors(self, positions: Any) -> Singles:
        """Return means in the form stored in the lists: float32, relative to the origin."""
        return self._seen(self.means[positions])

    def _seen(self, rows: Floats) -> Singles:
        with np.errstate(over="ignore", invalid="ignore"):
            seen = np.nan_to_num(rows - self.origin, posinf=_FARTHEST, neginf=-_FARTHEST)
        return np.ascontiguousarray(np.clip(seen, -_FARTHEST, _FARTHEST), dtype=np.float32)

    # Python cannot copy the lists inside faiss, so a copy rebuilds them.
    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in vars(self).items() if name != "_inverted"}
        return {**state, "training": self.training}

    def __setstate__(self, state: dict[str, Any]) -> None:
        training = state.pop("training")
        vars(self).update(state)
        self._inverted = InvertedLists(training, self._vectors)

    # -- changing -----------------------------------------------------------------------------------

    def add(self, means: Floats) -> None:
        """Append means at the end."""
        super().add(means)
        self._inverted.add(self._seen(means))

    def remove(self, position: int) -> None:
        """Remove one mean; the last one takes its position."""
        self._inverted.remove(position, self._seen(self.means[-1:]))
        super().remove(position)

    def replace(self, positions: Positions, means: Floats) -> None:
        """Replace the means at these positions."""
        super().replace(positions, means)
        self._inverted.replace(positions, self._seen(means))

    def restorer(self, positions: Positions) -> Restorer:
        """Return a function that undoes appended means, and replacement or removal of the given ones."""
        return Restorer([super().restorer(positions), self._inverted.restorer(positions)])

    # -- searching ----------------------------------------------------------------------------------

    def prepare(self, dtype: DTypeLike) -> None:
        """Do nothing: the inverted lists need no preparation."""

    def nearest(self, samples: Floats, n: int = 1, boundary: float | None = None) -> tuple[Floats, Positions]:
        """Find the n nearest means of each sample, or all means if there are fewer.

        Parameters
        ----------
        samples : float32 or float64 array of shape (n_samples, m)
        n : int, default=1
        boundary : float, optional
            Distance beyond which means are irrelevant. More lists are searched for a sample without a mean
            inside the boundary, but not lists that lie beyond it.

        Returns
        -------
        distances : array of shape (n_samples, n)
            Euclidean, ascending, in the dtype of the samples.
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
        """Return the n nearest of k candidates, by exact distances."""
        seen = self._seen(samples)
        squared, near = candidates(self._inverted, seen, n, boundary, k)
        edge = _edge(squared[:, n - 1], seen)
        distances, positions = self._measured(samples, seen, near[:, :n])
        for i in np.flatnonzero(squared[:, n] <= edge):
            sample, among = samples[i : i + 1], near[i, squared[i] <= edge[i]]
            if len(among) == k < len(self):  # rounding or equal distances may hide further candidates
                found = self._found(sample, n, boundary, min(8 * k, len(self) + 1))
            else:
                found = self._by_distance(sample, among[np.newaxis])
            distances[i], positions[i] = found[0][0, :n], found[1][0, :n]
        with np.errstate(over="ignore"):
            dtype = np.float32 if samples.dtype == np.float32 else np.float64
            return distances.astype(dtype, copy=False), positions

    def _measured(self, samples: Floats, seen: Singles, positions: Positions) -> tuple[Floats, Positions]:
        """Return the distances of each sample to the means at its positions, sorted, and the positions.

        As in exact search, float32 is accurate enough for the single nearest mean of a float32 sample that is
        not much nearer to it than to the origin. The lists store means in float32, so the float64 means need
        not be loaded into memory.
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
    """Return the squared distance up to which rounding may have hidden an equally near mean.

    Rounding to float32 moves a sample and a mean by eps / 2 of their lengths, and changes a sum of m squares
    by at most m eps of its value. A mean at distance d is at most d longer than the sample.
    """
    eps = np.finfo(np.float32).eps
    distances, lengths = np.sqrt(squared), np.linalg.norm(seen, axis=1)
    return np.asarray((distances + eps * ((seen.shape[1] + 8) * distances + 4 * lengths)) ** 2)
