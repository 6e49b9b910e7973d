"""The protocol of indexes of class means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

Floats = NDArray[np.floating[Any]]
Positions = NDArray[np.intp]


class Index(Protocol):
    """Class means that can be searched and updated one by one, at a cost independent of their number.

    A mean is identified by its position. Among equally near means, the one with the smallest name comes
    first.
    """

    origin: NDArray[np.float64]

    @property
    def means(self) -> NDArray[np.float64]:
        """The means by position, shape (K, m), as a view."""

    def __len__(self) -> int: ...

    def add(self, means: Floats) -> None:
        """Append means at the end."""

    def remove(self, position: int) -> None:
        """Remove one mean; the last one takes its position."""

    def replace(self, positions: Positions, means: Floats) -> None:
        """Replace the means at these positions."""

    def restorer(self, positions: Positions) -> Callable[[], None]:
        """Return a function that undoes appended means, and replacement or removal of the given ones.

        Removing a mean moves the last one, so the positions must include the last one too.
        """

    def prepare(self, dtype: DTypeLike) -> None:
        """Compute now what the first search for samples of this dtype would otherwise compute."""

    def nearest(self, samples: Floats, n: int = 1, boundary: float | None = None) -> tuple[Floats, Positions]:
        """Return the distances and positions of the n nearest means of each sample, nearest first.

        Parameters
        ----------
        samples : float32 or float64 array of shape (n_samples, m)
        n : int, default=1
        boundary : float, optional
            Distance beyond which means are irrelevant. Approximate search looks at more lists for a sample
            without a mean inside the boundary, but not at lists that lie beyond it.
        """

    def squared_distances(self, samples: Floats) -> Floats:
        """Return the squared distance of every sample to every mean, shape (n_samples, K)."""
