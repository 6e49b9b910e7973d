"""Histograms of oriented gradients by Felzenszwalb, Girshick, McAllester and Ramanan (PAMI 2010).

The arithmetic is that of their published program (voc-release, 31 values per cell; the truncation feature
of its last releases is left out).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openworld.features.pictures import Descriptors, Pixels, as_pixels

DIRECTIONS = 9  # without sign; 18 with
LENGTH = 3 * DIRECTIONS + 4

# The published four digits: vertical gradients are equally near to directions 4 and 5 and go to 4.
_COSINES = np.array([1.0, 0.9397, 0.7660, 0.5, 0.1736, -0.1736, -0.5, -0.7660, -0.9397])
_SINES = np.array([0.0, 0.3420, 0.6428, 0.8660, 0.9848, 0.9848, 0.8660, 0.6428, 0.3420])
_EPSILON = 0.0001  # keeps a cell without gradients at zero
_CLAMP = 0.2
_TEXTURE = 0.2357
_ROWS_AT_ONCE = 32  # small enough for the processor's cache


@dataclass(frozen=True)
class HOG:
    """31 values for each cell of a grid.

    Values 0 to 17 are the gradients in 18 directions, ``20 o`` degrees from the x-axis towards the y-axis,
    which points down; 18 to 26 are those of 9 directions without sign; 27 to 30 are the gradient energy
    relative to the block of 2 x 2 cells below right, above right, below left and above left. In a color
    picture the channel with the largest gradient counts, pixel by pixel; the first one if several are equal.

    The cells at the border only serve to normalize the others, so a picture needs about three cells along
    each side for one descriptor.

    Parameters
    ----------
    cell : int, default=8
        Pixels along the side of a cell.

    Notes
    -----
    The published constant that keeps an empty cell at zero supposes values up to 255. Values up to 1 give
    nearly the same descriptors, except in cells with next to no contrast and where rounding decides between
    channels with equal gradients.

    Examples
    --------
    >>> import numpy as np
    >>> HOG().descriptors(np.eye(40)).shape
    (9, 31)
    """

    cell: int = 8

    def __post_init__(self) -> None:
        if self.cell < 1:
            raise ValueError(f"cell must be at least 1; got {self.cell}.")

    def descriptors(self, picture: ArrayLike) -> Descriptors:
        """Return the descriptors of all cells, row by row, float32 of shape (n_cells, 31)."""
        return self.grid(picture).reshape(-1, LENGTH)

    def grid(self, picture: ArrayLike) -> Descriptors:
        """Return the descriptors as a grid, float32 of shape (rows, columns, 31)."""
        pixels = as_pixels(picture)
        rows, columns = (int(side / self.cell + 0.5) for side in pixels.shape[:2])
        if min(rows, columns) < 3:
            return np.zeros((0, 0, LENGTH), dtype=np.float32)
        return _features(_histograms(pixels, self.cell, rows, columns))


def strongest_gradients(channels: Pixels, y: NDArray[np.intp], width: int) -> tuple[Pixels, Pixels, Pixels]:
    """Return dx, dy and the squared length of the strongest channel's gradient.

    Parameters
    ----------
    channels : array of shape (C, H, W)
    y : array of shape (n,)
        The rows, none of them at the border.
    width : int
        The gradients are those of the columns 1 to width - 2. Beyond the last column but one of the picture
        the gradient there is repeated.

    Returns
    -------
    dx, dy, squares : arrays of shape (n, width - 2)
    """
    end = min(width, channels.shape[2]) - 1
    for c, channel in enumerate(channels):
        rows = channel[y]
        across = rows[:, 2 : end + 1] - rows[:, : end - 1]
        down = channel[y + 1, 1:end] - channel[y - 1, 1:end]
        energy = across * across + down * down
        if c == 0:
            dx, dy, squares = across, down, energy
            continue
        stronger = energy > squares
        for strongest, other in ((dx, across), (dy, down), (squares, energy)):
            np.copyto(strongest, other, where=stronger)
    repeated = ((0, 0), (0, width - 1 - end))
    dx, dy, squares = (np.pad(part, repeated, mode="edge") for part in (dx, dy, squares))
    return dx, dy, squares


def nearest_directions(dx: Pixels, dy: Pixels) -> NDArray[np.intp]:
    """Return the nearest of the 18 directions, the first of several that are equally near."""
    best, nearest = np.zeros(dx.shape), np.zeros(dx.shape, dtype=np.intp)
    for o in range(DIRECTIONS):
        along = np.abs(_COSINES[o] * dx + _SINES[o] * dy)
        np.copyto(nearest, o, where=along > best)
        np.maximum(best, along, out=best)
    opposite = _COSINES[nearest] * dx + _SINES[nearest] * dy < 0
    return nearest + DIRECTIONS * opposite


def _histograms(pixels: Pixels, cell: int, rows: int, columns: int) -> Pixels:
    """Share the gradient of each pixel between the four nearest cells, shape (rows, columns, 18)."""
    channels = np.ascontiguousarray(np.moveaxis(pixels.reshape(*pixels.shape[:2], -1), -1, 0))
    histograms = np.zeros((rows, columns * 2 * DIRECTIONS))
    for start in range(1, rows * cell - 1, _ROWS_AT_ONCE):
        y = np.arange(start, min(start + _ROWS_AT_ONCE, rows * cell - 1))
        # Where the cells reach beyond the picture, the gradient next to its border is repeated.
        inside = np.minimum(y, pixels.shape[0] - 2)
        dx, dy, squares = strongest_gradients(channels, inside, columns * cell)
        lengths, directions = np.sqrt(squares), nearest_directions(dx, dy)
        shares = np.maximum(0, 1 - np.abs(_place(y, cell) - np.arange(rows)[:, np.newaxis]))
        histograms += shares @ _row_histograms(lengths, directions, cell, columns)
    return histograms.reshape(rows, columns, 2 * DIRECTIONS)


def _place(pixel: NDArray[np.intp], cell: int) -> Pixels:
    """Return where the center of a pixel is, in cells from the center of the first cell."""
    return (pixel + 0.5) / cell - 0.5


def _row_histograms(lengths: Pixels, directions: NDArray[np.intp], cell: int, columns: int) -> Pixels:
    """Share the gradients of each row of pixels between the columns of cells, shape (n, columns * 18)."""
    place = _place(np.arange(1, columns * cell - 1), cell)
    lower = np.floor(place)
    upper_share = place - lower
    # One more cell on each side takes what falls beyond the border.
    n, size = len(lengths), 2 * DIRECTIONS
    row = np.arange(n)[:, np.newaxis] * (columns + 2)
    target = ((row + lower.astype(np.intp) + 1) * size + directions).ravel()
    total = n * (columns + 2) * size
    summed = np.zeros(total)
    summed += np.bincount(target, (lengths * (1 - upper_share)).ravel(), minlength=total)
    summed += np.bincount(target + size, (lengths * upper_share).ravel(), minlength=total)
    return summed.reshape(n, columns + 2, size)[:, 1:-1].reshape(n, -1)


def _features(histograms: Pixels) -> Descriptors:
    """Normalize the inner cells by the four blocks of 2 x 2 cells that each belongs to."""
    unsigned = histograms[..., :DIRECTIONS] + histograms[..., DIRECTIONS:]
    energy = np.einsum("ijk,ijk->ij", unsigned, unsigned)
    blocks = energy[:-1, :-1] + energy[:-1, 1:] + energy[1:, :-1] + energy[1:, 1:]
    scale = 1 / np.sqrt(blocks + _EPSILON)
    below_right, above_right = scale[1:, 1:], scale[:-1, 1:]
    below_left, above_left = scale[1:, :-1], scale[:-1, :-1]
    inner, inner_unsigned = histograms[1:-1, 1:-1], unsigned[1:-1, 1:-1]
    features = np.zeros((*inner.shape[:2], LENGTH))
    for i, factor in enumerate((below_right, above_right, below_left, above_left)):
        signed = np.minimum(inner * factor[..., np.newaxis], _CLAMP)
        features[..., :18] += 0.5 * signed
        features[..., 18:27] += 0.5 * np.minimum(inner_unsigned * factor[..., np.newaxis], _CLAMP)
        features[..., 27 + i] = _TEXTURE * signed.sum(axis=-1)
    return features.astype(np.float32)
