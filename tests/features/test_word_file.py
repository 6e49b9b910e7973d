from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import save_file
from sklearn.exceptions import NotFittedError

from openworld.features import HOG, LBP, DenseSIFT, VisualWords, load_extractor
from openworld.features.word_file import save_words


@pytest.fixture
def pictures(random):
    return [random.integers(0, 256, (40, 48, 3), dtype=np.uint8) for _ in range(6)]


@pytest.mark.parametrize("descriptor", [None, HOG(), HOG(cell=4), DenseSIFT(radii=(4,)), LBP()])
@pytest.mark.parametrize("normalization", ["l1", "hellinger"])
def test_words_are_the_same_after_a_file(pictures, tmp_path, descriptor, normalization):
    words = VisualWords(descriptor, 5, normalization=normalization, random_state=0).fit(pictures)
    save_words(words, tmp_path / "mine.safetensors")
    extractor = load_extractor(f"words:{tmp_path / 'mine.safetensors'}")
    np.testing.assert_array_equal(extractor.transform(pictures), words.transform(pictures))
    assert extractor.id.name == "words:mine"
    assert normalization in extractor.id.preprocessing
    assert extractor.n_features == 5


def test_other_words_have_another_id(pictures, tmp_path):
    ids = set()
    for seed in (0, 1):
        words = VisualWords(HOG(), 5, random_state=seed).fit(pictures)
        save_words(words, tmp_path / "mine.safetensors")
        ids.add(load_extractor(f"words:{tmp_path / 'mine.safetensors'}").id)
    assert len(ids) == 2
    assert len({id.preprocessing for id in ids}) == 1


def test_big_pictures_are_made_smaller(pictures, tmp_path):
    words = VisualWords(HOG(), 5, random_state=0).fit(pictures)
    save_words(words, tmp_path / "mine.safetensors")
    extractor = load_extractor(f"words:{tmp_path / 'mine.safetensors'}")
    big = Image.fromarray(np.tile(pictures[0], (20, 20, 1)))
    assert big.size == (960, 800)
    expected = words.transform([np.asarray(big.resize((300, 250)))])
    np.testing.assert_array_equal(extractor.transform([big]), expected)


def test_what_cannot_be_kept(tmp_path):
    with pytest.raises(NotFittedError):
        save_words(VisualWords(), tmp_path / "mine.safetensors")

    class Own:
        def descriptors(self, picture):
            return np.asarray(picture, dtype=np.float32)

    words = VisualWords(Own(), 2, random_state=0).fit(np.random.default_rng(0).random((3, 4, 4)))
    with pytest.raises(ValueError, match=r"Only words of DenseSIFT, HOG, LBP .* these are of Own"):
        save_words(words, tmp_path / "mine.safetensors")


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "other.safetensors"
    with pytest.raises(ValueError, match=r"other.safetensors: not a file of visual words"):
        load_extractor(f"words:{path}")
    for content in (b"", b"abc", bytes(100)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="not a file of visual words"):
            load_extractor(f"words:{path}")
    save_file({"words": np.zeros((2, 2), np.float32)}, path)
    with pytest.raises(ValueError, match="not a file of visual words"):
        load_extractor(f"words:{path}")
