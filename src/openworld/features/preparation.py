"""Preprocessing of pictures for a network: crop, resize, normalize colors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

Filter = Literal["nearest", "bilinear", "bicubic", "lanczos"]

_FILTERS = ("nearest", "bilinear", "bicubic", "lanczos")


def as_image(picture: Any) -> Image:
    """Return a picture, a PIL image or a uint8 array of shape (H, W, 3), as a PIL image in RGB."""
    from PIL import Image

    if isinstance(picture, Image.Image):
        return picture if picture.mode == "RGB" else picture.convert("RGB")
    pixels = np.asarray(picture)
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3 or not pixels.size:
        raise ValueError(
            "A picture is a PIL image or a uint8 array of shape (H, W, 3); "
            f"got {pixels.dtype} {pixels.shape}."
        )
    return Image.fromarray(pixels)


@dataclass(frozen=True)
class Preparation:
    """Settings of the preprocessing: center crop, resize, color normalization.

    Parameters
    ----------
    size : (int, int)
        Height and width a network wants, in pixels.
    crop : float, default=0.875
        The share of the shorter side that is kept, from 0 to 1.
    filter : {"nearest", "bilinear", "bicubic", "lanczos"}, default="bilinear"
        Resampling filter.
    mean, std : three floats each
        A color from 0 to 1 becomes (color - mean) / std. By default those of ImageNet. A network that takes
        whole numbers gets the colors from 0 to 255 instead.
    """

    size: tuple[int, int]
    crop: float = 0.875
    filter: Filter = "bilinear"
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)

    def __post_init__(self) -> None:
        if min(self.size) < 1 or not 0 < self.crop <= 1 or self.filter not in _FILTERS or min(self.std) <= 0:
            raise ValueError(
                f"A preparation has a size of at least 1 x 1, a crop above 0 and up to 1, a filter of "
                f"{', '.join(_FILTERS)} and deviations above 0; got {self}."
            )

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> Preparation:
        """Build it from the content of a JSON file, with lists for tuples."""
        known = [field.name for field in fields(cls)]
        if unknown := sorted(set(d) - set(known)):
            raise ValueError(f"A preparation has no {', '.join(unknown)}; it has {', '.join(known)}.")
        lengths = {"size": 2, "mean": 3, "std": 3}
        for name, length in lengths.items():
            if name in d and (not isinstance(d[name], Sequence) or len(d[name]) != length):
                raise ValueError(f"{name} must be {length} numbers; got {d[name]!r}.")
        values: dict[str, Any] = {name: tuple(d[name]) if name in lengths else d[name] for name in d}
        return cls(**values)

    def cut(self, pictures: Sequence[Any]) -> NDArray[np.uint8]:
        """Crop and resize, to an array of shape (n, height, width, 3)."""
        from PIL import Image

        height, width = self.size
        batch = np.empty((len(pictures), height, width, 3), dtype=np.uint8)
        method = Image.Resampling[self.filter.upper()]
        for i, picture in enumerate(pictures):
            image = as_image(picture)
            batch[i] = np.asarray(image.resize((width, height), method, box=self._box(image.size)))
        return batch

    def shift(self, batch: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Normalize the colors, shape (n, height, width, 3)."""
        mean, std = np.array(self.mean, np.float32), np.array(self.std, np.float32)
        return batch * (1 / (255 * std)) - mean / std

    def describe(self) -> str:
        """Return the settings in one line, for the extractor's id."""
        height, width = self.size
        mean, std = (",".join(f"{value:g}" for value in values) for values in (self.mean, self.std))
        return f"rgb {height}x{width} {self.filter} crop {self.crop:g} mean {mean} std {std}"

    def _box(self, size: tuple[int, int]) -> tuple[float, float, float, float]:
        """Return the center crop in the network's aspect ratio: left, top, right, bottom."""
        height, width = self.size
        scale = self.crop * min(size[0] / width, size[1] / height)
        left, top = (size[0] - scale * width) / 2, (size[1] - scale * height) / 2
        return left, top, left + scale * width, top + scale * height
