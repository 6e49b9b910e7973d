from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from openworld.features import decode as decode_module
from openworld.features.decode import decode
from openworld.features.picture_limits import PictureError


def stored(image, kind="PNG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def pixels(data, **options):
    image = decode(data, **options)
    assert image.mode == "RGB"
    return np.asarray(image)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM", "WEBP", "GIF"])
def test_formats(color, kind):
    image = Image.fromarray(color)
    if kind == "GIF":
        image = image.quantize(256)
    exact = {"lossless": True} if kind == "WEBP" else {}
    np.testing.assert_array_equal(pixels(stored(image, kind, **exact)), np.asarray(image.convert("RGB")))


@pytest.mark.parametrize("mode", ["1", "L", "P"])
def test_fewer_colors(color, mode):
    image = Image.fromarray(color).convert(mode)
    np.testing.assert_array_equal(pixels(stored(image)), np.asarray(image.convert("RGB")))


def test_cmyk(color):
    flat = Image.new("CMYK", (16, 16), (255, 0, 0, 0))
    for kind in ("JPEG", "TIFF"):
        seen = pixels(stored(flat, kind)).astype(int)
        assert np.abs(seen - [0, 255, 255]).max() <= 2


def test_16_bits():
    levels = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    seen = pixels(stored(Image.fromarray(levels)))
    np.testing.assert_array_equal(seen[..., 0], np.round(levels / 257))
    assert (seen == seen[..., :1]).all()
    np.testing.assert_array_equal(pixels(stored(Image.fromarray(levels), "TIFF")), seen)


def test_32_bits():
    levels = np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8)
    np.testing.assert_array_equal(
        pixels(stored(Image.fromarray(levels), "TIFF"))[..., 1], np.round(255.0 * levels)
    )
    whole = np.arange(64, dtype=np.int32).reshape(8, 8)
    np.testing.assert_array_equal(pixels(stored(Image.fromarray(whole), "TIFF"))[..., 2], whole)


def test_transparent_parts_are_white():
    image = Image.new("RGBA", (2, 1), (0, 0, 0, 0))
    image.putpixel((1, 0), (10, 20, 30, 255))
    np.testing.assert_array_equal(pixels(stored(image)), [[[255] * 3, [10, 20, 30]]])
    half = Image.new("LA", (1, 1), (0, 128))
    assert abs(int(pixels(stored(half))[0, 0, 0]) - 127) <= 1


@pytest.mark.parametrize("kind", ["PNG", "GIF"])
def test_a_transparent_color_of_a_palette_is_white(kind):
    image = Image.new("P", (2, 1), 0)
    image.putpalette([200, 0, 0, 0, 0, 200])
    image.putpixel((1, 0), 1)
    data = stored(image, kind, transparency=0)
    np.testing.assert_array_equal(pixels(data), [[[255] * 3, [0, 0, 200]]])


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_of_a_moving_picture_the_first_frame(kind):
    frames = [Image.new("RGB", (4, 4), color) for color in ("red", "lime", "blue")]
    data = stored(
        frames[0],
        kind,
        save_all=True,
        append_images=frames[1:],
        **({"lossless": True} if kind == "WEBP" else {}),
    )
    assert (pixels(data) == [255, 0, 0]).all()


@pytest.mark.parametrize(
    ("orientation", "turn"),
    [
        (1, lambda a: a),
        (2, np.fliplr),
        (3, lambda a: np.rot90(a, 2)),
        (4, np.flipud),
        (5, lambda a: a.transpose(1, 0, 2)),
        (6, lambda a: np.rot90(a, -1)),
        (7, lambda a: np.rot90(a, 2).transpose(1, 0, 2)),
        (8, np.rot90),
    ],
)
@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_upright(color, orientation, turn, kind):
    exif = Image.Exif()
    exif[0x0112] = orientation
    np.testing.assert_array_equal(pixels(stored(Image.fromarray(color), kind, exif=exif)), turn(color))


def test_an_orientation_that_does_not_exist_is_none(color):
    exif = Image.Exif()
    exif[0x0112] = 9
    np.testing.assert_array_equal(pixels(stored(Image.fromarray(color), exif=exif)), color)


def test_a_jpeg_held_upright():
    image = Image.new("RGB", (32, 16), "blue")
    exif = Image.Exif()
    exif[0x0112] = 6
    assert decode(stored(image, "JPEG", exif=exif)).size == (16, 32)


def test_a_damaged_note_does_not_matter(color):
    data = stored(Image.fromarray(color), "JPEG", exif=b"Exif\x00\x00broken", quality=95)
    assert decode(data).size == (48, 40)


def test_big_jpegs_are_decoded_smaller():
    assert decode(stored(Image.new("RGB", (2100, 1100)), "JPEG")).size == (1050, 550)
    assert decode(stored(Image.new("RGB", (1000, 1500)), "JPEG")).size == (1000, 1500)
    assert decode(stored(Image.new("L", (2048, 4096)), "JPEG")).size == (512, 1024)
    assert decode(stored(Image.new("RGB", (1100, 1100)))).size == (1100, 1100)


def bomb(side):
    """A small PNG whose header tells of a big picture."""

    def chunk(kind, content):
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("side", [8001, 20000])
def test_too_many_pixels_are_refused_before_decoding(side):
    with pytest.raises(PictureError, match=r"more than the 64,000,000 allowed|decompression bomb"):
        decode(bomb(side))


def test_the_limit_can_be_chosen(color):
    data = stored(Image.fromarray(color))
    assert decode(data, max_pixels=48 * 40).size == (48, 40)
    with pytest.raises(PictureError, match="48 x 40 pixels are more than the 1,919 allowed"):
        decode(data, max_pixels=48 * 40 - 1)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF"])
def test_truncated_pictures_are_refused(color, kind):
    data = stored(Image.fromarray(np.tile(color, (4, 4, 1))), kind)
    with pytest.raises(PictureError, match="picture"):
        decode(data[: len(data) // 2])
    with pytest.raises(PictureError, match="picture"):
        decode(data[:10])


def test_avif(gray):
    data = stored(Image.fromarray(gray).convert("RGB"), "AVIF", quality=100)
    assert np.abs(pixels(data)[..., 1].astype(int) - gray).mean() < 5


def test_heic_with_its_plugin(gray):
    pytest.importorskip("pillow_heif").register_heif_opener()
    data = stored(Image.fromarray(gray).convert("RGB"), "HEIF", quality=100)
    assert np.abs(pixels(data)[..., 1].astype(int) - gray).mean() < 5


@pytest.mark.parametrize(
    ("brand", "missing", "hint"),
    [
        (b"heic", "HEIF", "HEIC picture.*pip install pillow-heif"),
        (b"avif", "AVIF", "AVIF picture.*pillow>=11"),
    ],
)
def test_a_missing_reader_is_named(monkeypatch, brand, missing, hint):
    without = tuple(name for name in decode_module._known_formats() if name != missing)
    monkeypatch.setattr(decode_module, "_known_formats", lambda: without)
    with pytest.raises(PictureError, match=hint):
        decode(b"\x00\x00\x00\x18ftyp" + brand + b"\x00\x00\x00\x00" + brand + b"mif1" + bytes(64))


def test_other_files_are_refused():
    with pytest.raises(PictureError, match="the file is empty"):
        decode(b"")
    for data in (
        b"just some text",
        bytes(1000),
        b"%PDF-1.7",
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
    ):
        with pytest.raises(PictureError, match="not a picture of a known format"):
            decode(data)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "I;16", "I", "F"])
def test_strips_make_the_whole(color, mode, monkeypatch):
    """Large pictures are converted a strip at a time, with the same result."""
    image = Image.fromarray(color)
    if mode in ("RGBA", "LA"):
        image.putalpha(Image.linear_gradient("L").resize(image.size))
        image = image.convert(mode)
    elif mode == "P":
        image = image.quantize(64)
        image.info["transparency"] = bytes(range(0, 256, 4))
    else:
        gray = np.asarray(image.convert("L")).astype(
            {"I;16": np.uint16, "I": np.int32, "F": np.float32}[mode]
        )
        image = Image.fromarray(gray * (200 if mode == "I;16" else 1))
    data = stored(image, "TIFF" if mode in ("I", "F") else "PNG")
    whole = pixels(data)
    monkeypatch.setattr("openworld.features.decode._STRIP_PIXELS", 5 * image.width)
    np.testing.assert_array_equal(pixels(data), whole)
    assert len(np.unique(whole)) > 10
