"""Pictures for the descriptors: checked, as floats, in gray or HSV."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

Pixels = NDArray[np.float64]
Descriptors = NDArray[np.float32]

_ROWS_AT_ONCE = 32  # small enough for the processor's cache


class Descriptor(Protocol):
    """Describes a picture by any number of vectors of the same length."""

    def descriptors(self, picture: ArrayLike) -> Descriptors:
        """Return the descriptors of a picture, shape (n, d); n is 0 where it has too few pixels."""
        ...


def as_pixels(picture: ArrayLike) -> Pixels:
    """Check a picture and return its values as float64; they are not scaled.

    Parameters
    ----------
    picture : array of shape (H, W) or (H, W, 3)
        Gray or RGB, of whole numbers or floats, usually from 0 to 255.

    Raises
    ------
    ValueError
        If the shape is another one, the values are not real numbers, or some are not finite.
    """
    pixels: NDArray[Any] = np.asarray(picture)
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] != 3):
        raise ValueError(f"A picture is an array of shape (H, W) or (H, W, 3); got {pixels.shape}.")
    if pixels.dtype.kind not in "buif":
        raise ValueError(f"The values of a picture are whole numbers or floats; got {pixels.dtype}.")
    if pixels.dtype.kind == "f" and not np.isfinite(pixels).all():
        raise ValueError("The picture has values that are not finite.")
    return pixels.astype(np.float64)


def to_gray(pixels: Pixels) -> Pixels:
    """Return the luma of ITU-R BT.601, shape (H, W); a gray picture is returned as it is."""
    if pixels.ndim == 2:
        return pixels
    # Not a matrix product: its rounding may depend on a pixel's position, and equal pixels must stay equal.
    return 0.299 * pixels[..., 0] + 0.587 * pixels[..., 1] + 0.114 * pixels[..., 2]


def to_hsv(pixels: Pixels) -> Pixels:
    """Return hue, saturation and value of an RGB picture, shape (H, W, 3).

    Hue and saturation are from 0 to 1, value is on the scale of the picture. A pixel without color has
    hue 0, a black one saturation 0.
    """
    hsv = np.empty((3, *pixels.shape[:2]))
    for start in range(0, len(pixels), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        hsv[:, rows] = _hsv(*np.moveaxis(pixels[rows], -1, 0))
    return np.moveaxis(hsv, 0, -1)


def _hsv(red: Pixels, green: Pixels, blue: Pixels) -> tuple[Pixels, Pixels, Pixels]:
    value = np.maximum(np.maximum(red, green), blue)
    chroma = value - np.minimum(np.minimum(red, green), blue)
    divisor = np.where(chroma == 0, 1.0, chroma)
    sixths = np.where(
        value == red,
        (green - blue) / divisor,
        np.where(value == green, 2 + (blue - red) / divisor, 4 + (red - green) / divisor),
    )
    hue = np.where(sixths < 0, sixths + 6, sixths) / 6
    return hue, chroma / np.where(value == 0, 1.0, value), value
