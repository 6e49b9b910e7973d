"""Files that would take a decoder minutes or gigabytes are refused in a moment; each did so before."""

from __future__ import annotations

import io
import struct
import zlib

import pytest
from PIL import Image

from openworld.features import picture_limits
from openworld.features.decode import count_pixels, decode, thumbnail
from openworld.features.picture_limits import PictureError


def stored(image: Image.Image, form: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(*chunks: bytes, width: int = 8, height: int = 8) -> bytes:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(bytes((width + 1) * height)))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(chunks) + pixels + chunk(b"IEND", b"")


def jpeg(segments: bytes) -> bytes:
    data = stored(Image.new("L", (64, 64)), "JPEG", progressive=True)
    return data[:2] + segments + data[2:]


def jpeg_of_scans(n: int) -> bytes:
    data = jpeg(b"")
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * n + data[-2:]


def tiff(n_strips: int, order: str = "<", big: bool = False) -> bytes:
    place, step, magic = ("Q", "HHQQ", 43) if big else ("I", "HHII", 42)
    start = struct.pack(f"{order}2sH", b"II" if order == "<" else b"MM", magic)
    start += struct.pack(order + ("HHQ" if big else "I"), *((8, 0, 16) if big else (8,)))
    short = 3
    tags = [(256, 4, 1, 8), (257, 4, 1, 8), (258, short, 1, 8), (259, short, 1, 1), (262, short, 1, 1)]
    tags += [(273, 4, n_strips, 400), (277, short, 1, 1), (278, 4, 1, 8)]
    table = struct.pack(order + ("Q" if big else "H"), len(tags))
    table += b"".join(struct.pack(order + step, *tag) for tag in tags) + struct.pack(order + place, 0)
    return (start + table).ljust(400, b"\0") + struct.pack(f"{order}I", 100) * n_strips


GIF = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff"
FRAME = b"\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (png(*[chunk(b"tIME", b"")] * 1001), "PNG of more than 1,000 chunks"),
        (png(*[chunk(b"iCCP", b"k\0\0" + zlib.compress(bytes(100)))] * 1001), "PNG of more than 1,000"),
        (png(*[chunk(b"IDAT", b"")] * 1001), "PNG of more than 1,000 chunks"),
        (png()[:-12] + chunk(b"tEXt", b"a\0b") * 1001 + chunk(b"IEND", b""), "PNG of more than 1,000"),
        (jpeg_of_scans(101), "JPEG of more than 100 scans"),
        (b"\xff\xd8\xff\xfe\0\x04\xff\xd9" + jpeg_of_scans(101)[2:], "JPEG of more than 100 scans"),
        (jpeg(b"\xff\xfe\0\x02" * 10_000), "JPEG of more than 10,000 segments"),
        (jpeg(b"\xff\xfe\0\x02" * 2000), "more parts than any program writes"),
        (jpeg(b"\xff\xe1\0\x0cExif\0\0abcd" * 2000), "more parts than any program writes"),
        (jpeg(b"\xff" * 100_000), "more parts than any program writes"),
        (GIF + b"\x21\xfe\x01c\0" * 2000 + FRAME + b";", "more parts than any program writes"),
        (b"P5 #" + b"a" * 10_000, "more parts than any program writes"),
        (tiff(300_000), "TIFF with a list of 300,000 numbers"),
        (tiff(300_000, ">"), "TIFF with a list of 300,000 numbers"),
        (tiff(300_000, "<", big=True), "TIFF with a list of 300,000 numbers"),
        (tiff(300_000, ">", big=True), "TIFF with a list of 300,000 numbers"),
    ],
)
def test_files_of_very_many_parts_are_refused(data: bytes, reason: str) -> None:
    for read in (decode, count_pixels):
        with pytest.raises(PictureError, match=reason):
            read(data)


@pytest.mark.parametrize(
    "data",
    [
        png(*[chunk(b"tEXt", b"a\0b")] * 50),
        jpeg_of_scans(10),
        jpeg(b"") + b"\xff\xda\0\x02" * 1000,  # a video behind the picture
        jpeg(b"\xff\xe2\x01\x02" + bytes(256)),
        GIF + b"\x21\xfe\x03abc\0" + FRAME * 5000 + b";",
        stored(Image.new("L", (8, 8)), "TIFF", save_all=True, append_images=[Image.new("L", (8, 8))] * 100),
        stored(Image.new("L", (3, 3000)), "TIFF", strip_size=3),
        stored(Image.new("RGB", (8, 8)), "MPO", save_all=True, append_images=[Image.new("RGB", (8, 8))] * 3),
    ],
)
def test_ordinary_files_are_read(data: bytes) -> None:
    assert decode(data).width * decode(data).height == count_pixels(data)


def test_a_picture_of_endless_pixel_reads_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_limits, "_PIXEL_READS", 1000)
    start = (
        b"BM" + struct.pack("<IHHI", 0, 0, 0, 1078) + struct.pack("<IiiHHIIiiII", 40, 9, 9, 1, 8, 1, *[0] * 5)
    )
    with pytest.raises(PictureError, match="more parts than any program writes"):
        decode(start + bytes(1024) + b"\0\2\0\0" * 1000)  # steps that move nowhere


@pytest.mark.parametrize(("width", "height"), [(100_000, 1), (1, 100_000)])
def test_a_side_has_a_limit(width: int, height: int) -> None:
    with pytest.raises(PictureError, match=f"{width} x {height} pixels, no side can have more than 65,536"):
        decode(png(width=width, height=height))


@pytest.mark.parametrize("form", ["WEBP", "JPEG2000"])
def test_decoders_that_take_twice_the_memory_get_half_the_pixels(form: str) -> None:
    data = stored(Image.new("RGB", (100, 100)), form)
    assert count_pixels(data) == 20_000
    assert decode(data, max_pixels=20_000).size == (100, 100)
    with pytest.raises(PictureError, match=f"100 x 100 pixels are more than the 9,999 allowed in {form}"):
        decode(data, max_pixels=19_999)


def test_a_comment_too_long_for_a_thumbnail_is_dropped() -> None:
    """The thumbnail of such a picture failed: a JPEG can have comments of 65,533 bytes only."""
    comment = b"\x21\xfe" + (b"\xff" + b"c" * 255) * 300 + b"\0"
    assert thumbnail(GIF + comment + FRAME + b";", 8, quality=80).startswith(b"\xff\xd8")
    assert decode(GIF + comment + FRAME + b";").info == {}
