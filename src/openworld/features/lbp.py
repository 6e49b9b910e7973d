"""Local binary patterns of 8 neighbors on a circle of radius 1 (Ojala, Pietikäinen, Mäenpää, PAMI 2002)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openworld.features.pictures import Descriptors, Pixels, as_pixels, to_gray

NEIGHBORS = 8

_SIDES = ((0, 1), (-1, 0), (0, -1), (1, 0))  # (dy, dx): right, above, left, below


def _changes(code: int) -> int:
    """Count the changes between 0 and 1 once around the circle."""
    return (code ^ (code >> 1 | (code & 1) << (NEIGHBORS - 1))).bit_count()


UNIFORM = tuple(code for code in range(2**NEIGHBORS) if _changes(code) <= 2)
LENGTH = len(UNIFORM) + 1

_PATTERN = np.full(2**NEIGHBORS, LENGTH - 1, dtype=np.intp)
_PATTERN[list(UNIFORM)] = np.arange(LENGTH - 1)


@dataclass(frozen=True)
class LBP:
    """How often each pattern occurs: 58 uniform patterns and one value for all others.

    Bit p of a code tells whether the neighbor at ``45 p`` degrees, from the right over the top, is at
    least as bright as the pixel. The diagonal neighbors are interpolated between four pixels. A pattern is
    uniform when there are at most two changes between 0 and 1 around the circle; uniform patterns stand in
    the order of their codes. Color pictures are turned to gray. The outermost pixels have no code.

    Parameters
    ----------
    cell : int, default=16
        Pixels along the side of a cell of `descriptors`.

    Examples
    --------
    >>> import numpy as np
    >>> LBP().histogram(np.zeros((8, 8)))[-2:].tolist()  # every neighbor is as bright as the pixel
    [1.0, 0.0]
    """

    cell: int = 16

    def __post_init__(self) -> None:
        if self.cell < 1:
            raise ValueError(f"cell must be at least 1; got {self.cell}.")

    def histogram(self, picture: ArrayLike) -> NDArray[np.float32]:
        """Return the share of each pattern in the picture, float32 of shape (59,).

        The shares sum to 1; those of a picture with a side of less than three pixels are all 0.
        """
        patterns = self.patterns(picture)
        counts = np.bincount(patterns.ravel(), minlength=LENGTH)
        return (counts / max(patterns.size, 1)).astype(np.float32)

    def descriptors(self, picture: ArrayLike) -> Descriptors:
        """Return the shares within each whole cell, row by row, float32 of shape (n_cells, 59)."""
        patterns = self.patterns(picture)
        rows, columns = (side // self.cell for side in patterns.shape)
        inside = patterns[: rows * self.cell, : columns * self.cell]
        cells = np.arange(rows * columns).reshape(rows, columns)
        place = np.kron(cells, np.full((self.cell, self.cell), LENGTH)) + inside
        counts = np.bincount(place.ravel(), minlength=rows * columns * LENGTH)
        return (counts.reshape(-1, LENGTH) / self.cell**2).astype(np.float32)

    def patterns(self, picture: ArrayLike) -> NDArray[np.intp]:
        """Return the pattern of each inner pixel, 0 to 58, shape (H - 2, W - 2)."""
        return np.asarray(_PATTERN[local_binary_codes(to_gray(as_pixels(picture)))])


def local_binary_codes(gray: Pixels) -> NDArray[np.uint8]:
    """Return the code of each inner pixel, shape (H - 2, W - 2).

    The value halfway along a diagonal, minus the pixel's own, is ``s^2`` times the difference of the corner
    and ``s (1 - s)`` times those of its two sides, ``s = 1/sqrt(2)``. Only its sign matters; divided by
    ``s^2``, whole numbers that cancel give exactly 0.
    """
    height, width = gray.shape
    if min(height, width) < 3:
        return np.zeros((max(height - 2, 0), max(width - 2, 0)), dtype=np.uint8)

    def difference(dy: int, dx: int) -> Pixels:
        return gray[1 + dy : height - 1 + dy, 1 + dx : width - 1 + dx] - gray[1:-1, 1:-1]

    sides = [difference(*side) for side in _SIDES]
    codes = np.zeros((height - 2, width - 2), dtype=np.uint8)
    for i, (side, next_side) in enumerate(zip(sides, sides[1:] + sides[:1], strict=True)):
        (dy, dx), (next_dy, next_dx) = _SIDES[i], _SIDES[(i + 1) % 4]
        diagonal = difference(dy + next_dy, dx + next_dx) + (np.sqrt(2) - 1) * (side + next_side)
        codes |= (side >= 0).astype(np.uint8) << (2 * i)
        codes |= (diagonal >= 0).astype(np.uint8) << (2 * i + 1)
    return codes
