"""Decoding of picture files to upright RGB pictures."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from openworld.features.picture_limits import PictureError, PictureFile, check_parts

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")

MAX_PIXELS = 64_000_000
MAX_SIDE = 1 << 16  # pillow takes fifty bytes for a row, and more to resize such a picture

_ENOUGH = 512  # pixels of the shorter side: a JPEG of twice that or more is decoded smaller, which is faster
_STRIP_PIXELS = 1 << 20  # of what is converted at a time in several steps
# Not all formats of pillow: some run other programs, and users have no pictures in them.
_FORMATS = ("JPEG", "MPO", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "AVIF", "HEIF", "JPEG2000")
# Brands in the file type box of ISO media files, and what installs a reader.
_HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
_AVIF_BRANDS = (b"avif", b"avis")
_ORIENTATION = 0x0112  # EXIF: how the camera was held
_UPRIGHT = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}


def thumbnail(data: bytes, side: int, *, quality: int) -> bytes:
    """Return a picture as a JPEG file of at most `side` pixels in each direction."""
    picture = decode(data)
    picture.thumbnail((side, side))
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=quality)
    return file.getvalue()


def decode(data: bytes, *, max_pixels: int = MAX_PIXELS) -> Image:
    """Decode a picture.

    Parameters
    ----------
    data : bytes
        The file: JPEG, PNG, GIF, WebP, BMP, TIFF, PPM, AVIF or JPEG 2000; HEIC if pillow-heif is installed.
    max_pixels : int, default=64_000_000
        A larger picture is refused before it is decoded: a small file can decode to one that fills memory.
        Of WebP and JPEG 2000, half as many: their decoders take twice the memory.

    Returns
    -------
    PIL image in RGB
        Rotated upright by its EXIF orientation, transparent parts over white, the first frame of an
        animation, 16 bits per pixel scaled to 8. A large JPEG may be decoded smaller, its shorter side never
        below 512 pixels.

    Raises
    ------
    PictureError
        If the file is empty, truncated, too large or not a picture; the message says which.
    """
    return _upright(*_read(data, max_pixels, _decoded))


def count_pixels(data: bytes, *, max_pixels: int = MAX_PIXELS) -> int:
    """Return the pixels of a picture by its header; raise as `decode` if it is too large or not a picture.

    Those of WebP and JPEG 2000 count twice.
    """
    return _read(data, max_pixels, _weight)


def _read(data: bytes, max_pixels: int, look: Callable[[Image], T]) -> T:
    """Return what `look` finds in a picture that was opened but not decoded, and that is not too large."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise ImportError("Reading pictures needs pillow: pip install openworld[images]") from error
    if not data:
        raise PictureError("the file is empty")
    try:
        check_parts(data)
        file = PictureFile(data)
        with Image.open(file, formats=_known_formats()) as image:
            file.expect_pixels()
            _check_size(image, max_pixels)
            return look(image)
    except PictureError:
        raise
    except UnidentifiedImageError as error:
        raise PictureError(_missing_reader(data) or "not a picture of a known format") from error
    except Exception as error:  # pillow raises many kinds of errors on damaged files
        raise PictureError(f"not a picture that can be read ({error})") from error


def _check_size(image: Image, max_pixels: int) -> None:
    size = f"{image.width} x {image.height} pixels"
    if max(image.size) > MAX_SIDE:
        raise PictureError(f"of {size}, no side can have more than {MAX_SIDE:,}")
    if _weight(image) > max_pixels:
        most = max_pixels // (1 + _is_heavy(image))
        raise PictureError(f"{size} are more than the {most:,} allowed in {image.format}")


def _is_heavy(image: Image) -> bool:
    return image.format in ("WEBP", "JPEG2000")


def _weight(image: Image) -> int:
    return (1 + _is_heavy(image)) * image.width * image.height


def _decoded(image: Image) -> tuple[Image, int]:
    """Return a picture in RGB, and its orientation; what else was decoded is released."""
    shorter = min(image.size)
    image.draft(None, (image.width * _ENOUGH // shorter, image.height * _ENOUGH // shorter))
    image.load()
    picture, orientation = _rgb(image), _orientation(image)
    picture.info.clear()  # a comment would be written to every thumbnail, or be too long for it
    return picture, orientation


@functools.cache
def _known_formats() -> tuple[str, ...]:
    from PIL import Image

    try:  # not in the extra `images`: the encoder in its wheel is under the GPL
        from pillow_heif import register_heif_opener  # type: ignore[import-not-found, unused-ignore]

        register_heif_opener()
    except ImportError:
        pass
    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def _missing_reader(data: bytes) -> str | None:
    """Return how to install the reader of a format that pillow cannot open here; None for other files."""
    if data[4:8] != b"ftyp":
        return None
    brands = data[8:40]
    if any(brand in brands for brand in _AVIF_BRANDS):
        return "an AVIF picture, which this version of pillow cannot read: pip install 'pillow>=11.3'"
    if any(brand in brands for brand in _HEIF_BRANDS):
        return "a HEIC picture, which needs a plugin: pip install pillow-heif"
    return None


def _rgb(image: Image) -> Image:
    if image.mode.startswith("I") or image.mode == "F":
        return _from_wide(image)
    if image.has_transparency_data:
        return _over_white(image)
    return image if image.mode == "RGB" else image.convert("RGB")


def _over_white(image: Image) -> Image:
    """Lay a transparent picture over white, a strip at a time: whole copies would fill memory."""
    from PIL import Image

    flat = Image.new("RGB", image.size)
    for box in _strips(image):
        layer = image.crop(box).convert("RGBA")
        flat.paste(Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB"), box)
    return flat


def _from_wide(image: Image) -> Image:
    """Scale 16-bit gray levels, or floats up to 1, to 8 bits; integers up to 255 are unchanged."""
    from PIL import Image

    most = max(np.nan_to_num(np.asarray(image.crop(box))).max() for box in _strips(image))
    scale = 1.0
    if image.mode.startswith("I;16") or most > 255:
        scale = 255 / 65535
    elif image.mode == "F" and most <= 1:
        scale = 255.0
    gray = Image.new("L", image.size)
    for box in _strips(image):
        scaled = np.nan_to_num(np.asarray(image.crop(box)).astype(np.float64)) * scale
        gray.paste(Image.fromarray(np.clip(scaled.round(), 0, 255).astype(np.uint8)), box)
    return gray.convert("RGB")


def _strips(image: Image) -> list[tuple[int, int, int, int]]:
    """Return the boxes of strips that make up a picture."""
    width, height = image.size
    rows = max(1, _STRIP_PIXELS // width)
    return [(0, top, width, min(top + rows, height)) for top in range(0, height, rows)]


def _orientation(image: Image) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # damaged EXIF data is no reason to refuse the picture
        return 1


def _upright(image: Image, orientation: int) -> Image:
    from PIL import Image

    turn = _UPRIGHT.get(orientation)
    return image if turn is None else image.transpose(Image.Transpose[turn])
