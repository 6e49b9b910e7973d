"""Folders of pictures."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from openworld.data.dataset import load_dataset
from openworld.data.image_folder import read_image_folder
from openworld.data.tables import DataError


def save(path: Path, grey: int, mode: str = "L", size: tuple[int, int] = (20, 10)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", size, grey).convert(mode).save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "photos"
    save(root / "cat" / "1.png", 255)
    save(root / "cat" / "indoors" / "today" / "2.PNG", 51, "RGB")
    save(root / "dog" / "1.png", 0, "RGBA")
    save(root / "dog" / "2.gif", 102, "P", (32, 32))
    save(root / "007" / "1.bmp", 153, size=(1, 1))
    save(root / "beside.png", 9)
    (root / "dog" / "notes.txt").write_text("no picture")
    (root / "empty").mkdir()
    return root


def test_pictures_become_grey_pixels(folder: Path) -> None:
    seen: list[tuple[int, int]] = []
    X, y = read_image_folder(folder, size=4, progress=lambda done, total: seen.append((done, total)))
    assert X.shape == (5, 16)
    assert X.dtype == np.float32
    assert y.tolist() == ["007", "cat", "cat", "dog", "dog"]
    assert np.allclose(X, np.array([0.6, 1, 0.2, 0, 0.4])[:, None], atol=1 / 255)
    assert seen == [(i, 5) for i in range(1, 6)]


def test_pixels_keep_their_places(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    pixels = np.zeros((32, 32), dtype=np.uint8)
    pixels[3, 5] = 255
    Image.fromarray(pixels).save(tmp_path / "a" / "1.png")
    X, _ = read_image_folder(tmp_path)
    assert X.argmax() == 3 * 32 + 5
    assert X.sum() == 1


def test_a_folder_is_a_data_set(folder: Path) -> None:
    dataset = load_dataset(folder)
    assert dataset.name == "photos"
    assert dataset.X.shape == (5, 1024)
    assert dataset.classes.tolist() == ["007", "cat", "dog"]


def test_the_order_does_not_depend_on_the_disk(folder: Path) -> None:
    before = load_dataset(folder)
    moved = folder.with_name("other")
    for path in sorted(folder.rglob("*.*"), reverse=True):
        target = moved / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    assert load_dataset(moved).fingerprint() == before.fingerprint()


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no pictures found; put one sub-folder"):
        load_dataset(tmp_path)
    save(tmp_path / "beside.png", 9)  # of no class
    with pytest.raises(DataError, match="no pictures found"):
        load_dataset(tmp_path)


def test_a_picture_that_cannot_be_read_is_named(folder: Path) -> None:
    bad = folder / "dog" / "3.png"
    whole = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (20, 20), dtype=np.uint8)).save(whole, "png")
    for content in (b"", b"no picture", whole.getvalue()[:-200]):
        bad.write_bytes(content)
        with pytest.raises(DataError) as raised:
            load_dataset(folder)
        assert str(raised.value).startswith(f"{bad}: not a picture that can be read")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_damage_of_any_kind_names_the_picture(tmp_path: Path) -> None:
    """Pillow tells of damage by exceptions of many types, SyntaxError and ValueError among them."""
    bad = tmp_path / "a" / "1.ppm"
    bad.parent.mkdir()
    for content in (b"P6 x 2 255 ", b"P6 2 2 99999999 ", b"P6 2 2 255 abc", b"P2 2 2 255 1 2 3 x"):
        bad.write_bytes(content)
        with pytest.raises(DataError, match=r"1\.ppm: not a picture"):
            read_image_folder(tmp_path)
    whole = io.BytesIO()
    picture = np.random.default_rng(0).integers(0, 255, (20, 20, 3), dtype=np.uint8)
    Image.fromarray(picture).save(whole, "png")
    start = whole.getvalue().index(b"IDAT")
    bad = bad.rename(bad.with_suffix(".png"))
    bad.write_bytes(whole.getvalue()[:start] + b"\x00\x01\x02\x03" + whole.getvalue()[start + 4 :])
    with pytest.raises(DataError, match=r"1\.png: not a picture"):
        read_image_folder(tmp_path)
