"""What every index of class means can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

Floats = NDArray[np.floating[Any]]
Positions = NDArray[np.intp]


class Index(Protocol):
    """Class means that can be searched, and changed one by one at little cost, however many there are.

    A mean is known by its position. Of equally near means, the one with the smallest name comes first.
    """

    origin: NDArray[np.float64]

    @property
    def means(self) -> NDArray[np.float64]:
        """The means in order of position, shape (K, m), as a view."""

    def __len__(self) -> int: ...

    def add(self, means: Floats) -> None:
        """Append means; their positions follow the last one."""

    def remove(self, position: int) -> None:
        """Remove one mean; the last one takes its position."""

    def replace(self, positions: Positions, means: Floats) -> None:
        """Put other means at these positions."""

    def restorer(self, positions: Positions) -> Callable[[], None]:
        """Return a function that undoes appending means, and replacing or removing these ones.

        Removing one moves the last mean: its position is to be among them.
        """

    def prepare(self, dtype: DTypeLike) -> None:
        """Compute now what the first search for samples of this type would compute."""

    def nearest(self, samples: Floats, n: int = 1, boundary: float | None = None) -> tuple[Floats, Positions]:
        """Return distances to and positions of the n nearest means of each sample, nearest first.

        Parameters
        ----------
        samples : float32 or float64 array of shape (n_samples, m)
        n : int, default=1
        boundary : float, optional
            The distance from which on a mean no longer counts. Where the search is approximate, it is more
            thorough for samples for which no mean within it was found, and does not look beyond it.
        """

    def squared_distances(self, samples: Floats) -> Floats:
        """Return the squared distance of every sample to every mean, shape (n_samples, K)."""
