"""Dense SIFT with a flat window, on every channel of HSV: the paper's main feature.

The arithmetic is that of VLFeat's `vl_dsift` with its fast flat window: the gradients of a spatial bin are
weighted by a triangle (bilinear interpolation between bins) and the bin as a whole by the mean of SIFT's
Gaussian window over it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from openworld.features.pictures import Descriptors, Pixels, as_pixels, to_hsv

BINS = 4  # spatial bins along a side
ORIENTATIONS = 8
LENGTH = BINS * BINS * ORIENTATIONS

_LAST = ORIENTATIONS - 1  # `& _LAST` is `% ORIENTATIONS`, but much faster
_WINDOW = 2.0  # standard deviation of the Gaussian window, in bins
_CLAMP = 0.2  # Lowe 2004, section 6.1: no single gradient may dominate
_EPSILON = np.finfo(np.float32).eps  # keeps a descriptor without gradients at zero
_ROWS_AT_ONCE, _FRAMES_AT_ONCE = 32, 8  # small enough for the processor's cache


@dataclass(frozen=True)
class DenseSIFT:
    """SIFT descriptors on a regular grid, at several sizes and without rotation.

    A descriptor has 4 x 4 spatial bins of 8 orientations. Value ``(row * 4 + column) * 8 + t`` belongs to
    the bin in that row and column and to the direction ``45 t`` degrees, from the x-axis towards the
    y-axis, which points down. It is scaled to length 1, clamped at 0.2 and scaled again; where there is no
    gradient it is zero. A color picture is turned into HSV and the descriptors of the three channels
    stand one after the other, hue first.

    All bin centers lie inside the picture, so a side needs ``3 * radius + 1`` pixels for one descriptor.

    Parameters
    ----------
    step : int, default=5
        Pixels between neighboring descriptors.
    radii : tuple of int, default=(4, 8)
        Pixels between the centers of neighboring bins, one set of descriptors for each.

    Notes
    -----
    Hue is an angle, but taken as a number, as VLFeat does: between two reds there may be an edge.

    Examples
    --------
    >>> import numpy as np
    >>> DenseSIFT().descriptors(np.eye(28)).shape
    (17, 128)
    """

    step: int = 5
    radii: tuple[int, ...] = (4, 8)

    def __post_init__(self) -> None:
        if self.step < 1 or not self.radii or min(self.radii) < 1:
            raise ValueError(f"step and radii must be at least 1; got {self.step} and {self.radii}.")

    def descriptors(self, picture: ArrayLike) -> Descriptors:
        """Describe a picture.

        Parameters
        ----------
        picture : array of shape (H, W) or (H, W, 3)
            Gray or RGB.

        Returns
        -------
        descriptors : float32 array of shape (n, 128) for gray, (n, 384) for RGB
            Radius by radius, each grid row by row, in the order of `positions`.
        """
        pixels = as_pixels(picture)
        channels = [pixels] if pixels.ndim == 2 else list(np.moveaxis(to_hsv(pixels), -1, 0))
        grids = self._grids(*channels[0].shape)
        ends = np.cumsum([rows * columns for _, rows, columns in grids]).tolist()
        described = np.empty((ends[-1], len(channels), LENGTH), dtype=np.float32)
        if len(described):
            gradients = np.empty((pixels.shape[0], ORIENTATIONS, pixels.shape[1]), dtype=np.float32)
            for c, channel in enumerate(channels):
                oriented_gradients(channel, out=gradients)
                for (radius, rows, columns), end in zip(grids, ends, strict=True):
                    part = described[end - rows * columns : end, c]
                    _describe(gradients, radius, self.step, out=part)
        return described.reshape(len(described), len(channels) * LENGTH)

    def positions(self, picture: ArrayLike) -> NDArray[np.float32]:
        """Return x and y of the center of each descriptor and its radius, shape (n, 3)."""
        height, width = as_pixels(picture).shape[:2]
        return np.concatenate([_centers(*grid, self.step) for grid in self._grids(height, width)])

    def _grids(self, height: int, width: int) -> list[tuple[int, int, int]]:
        """Return radius, rows and columns of each grid."""
        return [
            (radius, _frames(height, radius, self.step), _frames(width, radius, self.step))
            for radius in self.radii
        ]


def oriented_gradients(channel: Pixels, out: NDArray[np.float32]) -> None:
    """Share the length of the gradient between the two nearest of 8 directions.

    Parameters
    ----------
    channel : array of shape (H, W), at least 2 x 2
    out : float32 array of shape (H, 8, W), contiguous
    """
    height, width = channel.shape
    for start in range(0, height, _ROWS_AT_ONCE):
        end = min(start + _ROWS_AT_ONCE, height)
        dy, dx = _gradient(channel, start, end)
        lengths = np.sqrt(dx * dx + dy * dy)
        turns = np.arctan2(dy, dx) * np.float32(ORIENTATIONS / (2 * np.pi))
        lower = np.floor(turns)
        upper_share = (turns - lower) * lengths
        direction = lower.astype(np.intp)
        place = np.arange(end - start)[:, np.newaxis] * (ORIENTATIONS * width) + np.arange(width)
        rows = out[start:end].reshape(-1)
        rows[:] = 0
        rows[place + (direction & _LAST) * width] = lengths - upper_share
        rows[place + (direction + 1 & _LAST) * width] = upper_share


def _gradient(channel: Pixels, start: int, end: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return dy and dx of some rows: central differences, one-sided at the border of the picture.

    Differences are taken in float64: hues that should be equal differ in their last digit, which must not
    become an edge.
    """
    first, last = max(start - 1, 0), min(end + 1, len(channel))
    inside = slice(start - first, end - first)
    dy: Pixels = np.gradient(channel[first:last], axis=0)[inside]
    dx: Pixels = np.gradient(channel[start:end], axis=1)
    return dy.astype(np.float32), dx.astype(np.float32)


def _frames(length: int, radius: int, step: int) -> int:
    """Count the descriptors along a side of the picture."""
    return max(0, (length - 1 - (BINS - 1) * radius) // step + 1)


def _centers(radius: int, rows: int, columns: int, step: int) -> NDArray[np.float32]:
    middle = (BINS - 1) * radius / 2
    x, y = np.meshgrid(np.arange(columns) * step + middle, np.arange(rows) * step + middle)
    return np.column_stack([x.ravel(), y.ravel(), np.full(x.size, radius)]).astype(np.float32)


def _describe(gradients: NDArray[np.float32], radius: int, step: int, out: Descriptors) -> None:
    """Write the descriptors of one size, a few rows of the grid at a time, shape (n, 128)."""
    height, _, width = gradients.shape
    columns = _bin_weights(width, radius, step)
    start = 0
    for rows in _row_blocks(height, radius, step):
        block = _pooled(gradients, rows, columns)
        _scale(block)
        np.minimum(block, _CLAMP, out=block)
        _scale(block)
        out[start : start + len(block)] = block
        start += len(block)


def _pooled(gradients: NDArray[np.float32], rows: csr_array, columns: csr_array) -> Descriptors:
    """Sum the gradients in every bin, shape (n, 128).

    The weights of a bin are a product of a function of y and one of x. Each is a thin sparse matrix: first
    all rows of bins are summed, then all columns.
    """
    height, _, width = gradients.shape
    summed = rows @ gradients.reshape(height, -1)
    summed = columns @ np.ascontiguousarray(summed.reshape(-1, width).T)
    bins: Descriptors = summed.reshape(-1, BINS, rows.shape[0] // BINS, BINS, ORIENTATIONS)
    return bins.transpose(2, 0, 3, 1, 4).reshape(-1, LENGTH)


@lru_cache(maxsize=64)
def _row_blocks(height: int, radius: int, step: int) -> tuple[csr_array, ...]:
    """Cut the weights into blocks whose sums stay in the processor's cache."""
    weights, size = _bin_weights(height, radius, step), BINS * _FRAMES_AT_ONCE
    return tuple(weights[i : i + size] for i in range(0, weights.shape[0], size))


@lru_cache(maxsize=64)
def _bin_weights(length: int, radius: int, step: int) -> csr_array:
    """Return the weight of every pixel along a side in every bin, shape (n_frames * 4, length).

    Beyond the border, the pixel at the border is repeated.
    """
    n = _frames(length, radius, step)
    reach = np.arange(1 - radius, radius)
    window = np.array([_window_mean(radius, b) for b in range(BINS)])
    centers = step * np.arange(n)[:, np.newaxis] + radius * np.arange(BINS)
    pixels = np.clip(centers.reshape(-1, 1) + reach, 0, length - 1)
    weights = np.tile(np.outer(window, 1 - np.abs(reach) / radius), (n, 1))
    bins = np.repeat(np.arange(n * BINS), len(reach))
    # Weights that fall on one pixel are summed.
    return csr_array((weights.ravel().astype(np.float32), (bins, pixels.ravel())), shape=(n * BINS, length))


def _window_mean(radius: int, b: int) -> float:
    """Return the mean of the Gaussian window over the pixels of a bin."""
    offset = radius * (b - (BINS - 1) / 2)
    z = (np.arange(1 - radius, radius) - offset) / (_WINDOW * radius)
    return float(np.exp(-0.5 * z * z).mean())


def _scale(descriptors: Descriptors) -> None:
    lengths = np.sqrt(np.einsum("ij,ij->i", descriptors, descriptors))
    descriptors /= (lengths + _EPSILON)[:, np.newaxis]
