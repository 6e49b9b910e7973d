"""Feature files of the ILSVRC'10 competition, made small in the competition's format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from openworld.data.dataset import load_dataset
from openworld.data.ilsvrc import N_WORDS, read_descriptors, read_visual_words
from openworld.data.tables import DataError


def save_words(path: Path, pictures: list[list[int]]) -> None:
    """Write a struct array `image_sbow` (1 x n) whose field `sbow` is a struct with x, y and word."""
    table = np.zeros((1, len(pictures)), dtype=[("ilsvrc2010_id", object), ("sbow", object)])
    for i, words in enumerate(pictures):
        places = np.arange(len(words), dtype=np.float64)[:, None]
        sbow = {"x": places, "y": places, "word": np.array(words, dtype=np.uint16)[:, None]}
        table[0, i] = (f"{path.name.split('.')[0]}_{i}", sbow)
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, {"image_sbow": table}, do_compression=True)


def histogram(words: list[int], n_words: int = N_WORDS) -> list[int]:
    return [words.count(word) for word in range(n_words)]


def test_words_are_counted(tmp_path: Path) -> None:
    first, second = [[0, 5, 5, 999], [7], []], [[1, 2, 3]]
    save_words(tmp_path / "train" / "n01440764.sbow.mat", first)
    save_words(tmp_path / "train" / "n01443537.train.sbow.mat", second)
    (tmp_path / "train" / "meta.mat").write_bytes(b"something else")
    seen: list[tuple[int, int]] = []
    X, y = read_visual_words(tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert X.dtype == np.float32
    assert X.tolist() == [histogram(words) for words in first + second]
    assert y.tolist() == ["n01440764"] * 3 + ["n01443537"]
    assert seen == [(1, 2), (2, 2)]
    dataset = load_dataset(tmp_path)
    assert np.array_equal(dataset.X, X)
    assert dataset.y.tolist() == y.tolist()


def test_fewer_words(tmp_path: Path) -> None:
    save_words(tmp_path / "n1.sbow.mat", [[0, 3, 3]])
    assert read_visual_words(tmp_path, n_words=4)[0].tolist() == [[1, 0, 0, 2]]
    with pytest.raises(DataError, match=r"n1\.sbow\.mat: a visual word lies outside 0\.\.2"):
        read_visual_words(tmp_path, n_words=3)


def test_word_numbers_outside(tmp_path: Path) -> None:
    save_words(tmp_path / "n1.sbow.mat", [[0, 1], [1000]])
    with pytest.raises(DataError, match=r"n1\.sbow\.mat: a visual word lies outside 0\.\.999"):
        read_visual_words(tmp_path)


@pytest.mark.parametrize(
    "variables", [{"a": np.eye(3)}, {"image_sbow": np.eye(3)}, {"image_sbow": {"sbow": {"x": 1}}}]
)
def test_foreign_files(tmp_path: Path, variables: dict[str, Any]) -> None:
    savemat(tmp_path / "n1.sbow.mat", variables)
    with pytest.raises(DataError, match=r"n1\.sbow\.mat: not an ILSVRC'10 file"):
        read_visual_words(tmp_path)


def test_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "n1.sbow.mat"
    save_words(path, [[0, 1, 2] * 50, [3, 4]])
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[200] ^= 0xFF
    hdf5 = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + b"\x89HDF\r\n\x1a\n"
    for content in (b"", b"nothing at all", whole[:140], whole[:-30], bytes(flipped), hdf5):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"n1\.sbow\.mat: not an ILSVRC'10 file"):
            read_visual_words(tmp_path)


def test_no_pictures(tmp_path: Path) -> None:
    save_words(tmp_path / "n1.sbow.mat", [])
    with pytest.raises(DataError, match="no visual words found"):
        read_visual_words(tmp_path)


def save_descriptors(path: Path, pictures: list[np.ndarray[Any, Any]]) -> None:
    """Write a struct array `image_vldsift` (n x 1) as the competition's own program does."""
    table = np.zeros((len(pictures), 1), dtype=[("ID", object), ("vldsift", object)])
    for i, descriptors in enumerate(pictures):
        n = len(descriptors)
        fields = {
            "x": np.arange(n, dtype=np.float32)[None],
            "y": 10 + np.arange(n, dtype=np.float32)[None],
            "scale": np.full((1, n), 2, dtype=np.int8),
            "norm": np.full((1, n), 0.5, dtype=np.float32),
            "desc": descriptors.T.astype(np.float32),
        }
        table[i, 0] = (f"{path.name.split('.')[0]}_{i}", fields)
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, {"image_vldsift": table}, do_compression=True)


def test_descriptors(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    first = [random.random((3, 128)), random.random((1, 128)), np.empty((0, 128))]
    second = [random.random((2, 128))]
    save_descriptors(tmp_path / "train" / "n01440764.vldsift.mat", first)
    save_descriptors(tmp_path / "train" / "n01443537.vldsift.mat", second)
    found = list(read_descriptors(tmp_path))
    assert [picture.label for picture in found] == ["n01440764"] * 3 + ["n01443537"]
    assert [picture.name for picture in found] == [
        "n01440764_0", "n01440764_1", "n01440764_2", "n01443537_0"
    ]  # fmt: skip
    for picture, given in zip(found, first + second, strict=True):
        n = len(given)
        assert picture.descriptors.dtype == np.float32
        np.testing.assert_array_equal(picture.descriptors, given.astype(np.float32))
        assert picture.places.tolist() == [[i, 10 + i] for i in range(n)]
        assert picture.scales.tolist() == [2] * n
        assert picture.norms.tolist() == [0.5] * n


def test_descriptors_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no \.vldsift\.mat files"):
        list(read_descriptors(tmp_path))
    path = tmp_path / "n1.vldsift.mat"
    one = {"x": [1, 2], "y": [1, 2], "scale": [0, 0], "norm": [1, 1], "desc": np.zeros((128, 3))}
    for variables in ({"a": 1}, {"image_vldsift": np.eye(2)}, {"image_vldsift": {"vldsift": one}}):
        savemat(path, variables)
        with pytest.raises(DataError, match=r"n1\.vldsift\.mat: not an ILSVRC'10 file of dense SIFT"):
            list(read_descriptors(tmp_path))
    path.write_bytes(b"nothing at all")
    with pytest.raises(DataError, match=r"n1\.vldsift\.mat: not an ILSVRC'10 file of dense SIFT"):
        list(read_descriptors(tmp_path))
