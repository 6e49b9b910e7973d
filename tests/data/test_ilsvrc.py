"""Feature files of the ILSVRC'10 competition, made small in the competition's format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from openworld.data.dataset import load_dataset
from openworld.data.errors import DataError
from openworld.data.ilsvrc import N_WORDS, read_visual_words


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
    X, y = read_visual_words(tmp_path)
    assert X.dtype == np.float32
    assert X.tolist() == [histogram(words) for words in first + second]
    assert y.tolist() == ["n01440764"] * 3 + ["n01443537"]
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
