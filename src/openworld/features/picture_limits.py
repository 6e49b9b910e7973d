"""Limits of picture files: a small file must not take minutes or gigabytes to decode.

The decoders of pillow read headers in Python, part by part, and some grow lists or texts with each part. No
camera or program writes as many parts as are refused here.
"""

from __future__ import annotations

import io
import re
import struct
from typing import Any

_HEADER_READS = 2000  # four for each part
_PIXEL_READS = 1 << 22
_MOST_CHUNKS = 1000  # of a PNG, besides those of its pixels
_MOST_SEGMENTS = 10_000
_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd8]", re.DOTALL)  # not one within the pixels
_MOST_SCANS = 100  # of a JPEG: each goes over all pixels
_MOST_VALUES = 1 << 18  # of one tag of a TIFF, such as the places of its strips
_PIXEL_CHUNKS = (b"IDAT", b"fcTL", b"fdAT")
_BYTES = (1, 2, 6, 7)  # types of TIFF tags that are read as bytes, not as a list of numbers


class PictureError(ValueError):
    """A file is not a picture that can be used; the message is the reason."""


class PictureFile(io.BytesIO):
    """The bytes of a picture; raises if a decoder reads too many pieces."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._reads_left = _HEADER_READS

    def expect_pixels(self) -> None:
        """Allow more reads, for the pixels: the header was read."""
        self._reads_left = _PIXEL_READS

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes; raise if there were too many pieces."""
        self._reads_left -= 1
        if self._reads_left < 0:
            raise PictureError("it has more parts than any program writes")
        return super().read(size)


def check_parts(data: bytes) -> None:
    """Raise `PictureError` if a picture has parts that would take too long, or too much memory, to decode."""
    try:
        if data.startswith(b"\x89PNG"):
            _check_png(data)
        elif data.startswith(b"\xff\xd8"):
            _check_jpeg(data)
        elif data[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
            _check_tiff(data)
    except struct.error:  # cut off: the decoder has a better message
        pass


def _check_png(data: bytes) -> None:
    at, n_chunks = 8, 0
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        n_chunks += kind not in _PIXEL_CHUNKS or not length
        if n_chunks > _MOST_CHUNKS:
            raise PictureError(f"a PNG of more than {_MOST_CHUNKS:,} chunks besides its pixels")
        at += 12 + length


def _check_jpeg(data: bytes) -> None:
    """Count the scans up to the end of the picture: a phone may append a video."""
    at, n_scans = 2, 0
    for _ in range(_MOST_SEGMENTS):
        found = _MARKER.search(data, at)
        if found is None or found[0] == b"\xff\xd9":
            return
        n_scans += found[0] == b"\xff\xda"
        if n_scans > _MOST_SCANS:
            raise PictureError(f"a JPEG of more than {_MOST_SCANS} scans")
        (length,) = struct.unpack_from(">H", data, found.end())
        at = found.end() + length
    raise PictureError(f"a JPEG of more than {_MOST_SEGMENTS:,} segments")


def _check_tiff(data: bytes) -> None:
    order, is_big = "<" if data[:1] == b"I" else ">", b"+" in data[2:4]

    def numbers(form: str, at: int) -> Any:
        return struct.unpack_from(order + form, data, at)

    (at,) = numbers("Q", 8) if is_big else numbers("I", 4)
    (n_tags,) = numbers("Q" if is_big else "H", at)
    first, step = (at + 8, 20) if is_big else (at + 2, 12)
    for place in range(first, first + step * n_tags, step):
        _, kind, n_values = numbers("HHQ" if is_big else "HHI", place)
        if n_values > _MOST_VALUES and kind not in _BYTES:
            raise PictureError(f"a TIFF with a list of {n_values:,} numbers in its header")
