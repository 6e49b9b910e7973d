from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from openworld.features import HOG, LBP, DenseSIFT, VisualWords
from openworld.features import visual_words as module


class Rows:
    """A descriptor for tests: the rows of the picture; counts how often it is asked."""

    def __init__(self):
        self.asked = 0

    def descriptors(self, picture):
        self.asked += 1
        return np.asarray(picture, dtype=np.float32)


@pytest.fixture
def pictures(random):
    """Pictures of three sizes."""
    shapes = [(40, 48), (64, 30), (32, 32)] * 3
    return [random.integers(0, 256, shape).astype(np.uint8) for shape in shapes]


@pytest.fixture
def words(pictures):
    return VisualWords(HOG(), 12, normalization="none", random_state=0).fit(pictures)


def test_words_are_counted_by_the_nearest(pictures, words):
    histograms = words.transform(pictures)
    assert histograms.shape == (9, 12)
    assert histograms.dtype == words.words_.dtype == np.float32
    for picture, histogram in zip(pictures, histograms, strict=True):
        counts = [0] * 12
        for descriptor in HOG().descriptors(picture):
            counts[np.argmin([np.linalg.norm(descriptor - word) for word in words.words_])] += 1
        assert histogram.tolist() == counts


def test_three_clusters_are_three_words(random):
    centers = np.array([[0, 0], [9, 0], [0, 9]])
    pictures = [centers[random.integers(0, 3, 20)] + random.normal(0, 0.1, (20, 2)) for _ in range(5)]
    model = VisualWords(Rows(), 3, random_state=0).fit(pictures)
    found = model.words_[np.lexsort(model.words_.T)]
    np.testing.assert_allclose(found, centers, atol=0.2)


@pytest.mark.parametrize("descriptor", [None, DenseSIFT(radii=(4,)), HOG(), LBP(cell=8)])
def test_every_descriptor_makes_words(descriptor, pictures):
    histograms = VisualWords(descriptor, 8, random_state=0).fit_transform(pictures)
    assert histograms.shape == (9, 8)
    np.testing.assert_allclose(histograms.sum(axis=1), 1, atol=1e-6)


def test_normalizations(pictures, words):
    counts = words.transform(pictures)
    shares = counts / counts.sum(axis=1, keepdims=True)
    expected = {
        "none": counts,
        "l1": shares,
        "l2": counts / np.linalg.norm(counts, axis=1, keepdims=True),
        "hellinger": np.sqrt(shares),
    }
    for normalization, histograms in expected.items():
        words.set_params(normalization=normalization)
        np.testing.assert_allclose(words.transform(pictures), histograms, atol=1e-6)


def test_same_seed_same_words(pictures):
    first, second = (VisualWords(HOG(), 9, random_state=7).fit(pictures).words_ for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_a_histogram_does_not_depend_on_the_other_pictures(pictures, words):
    together = words.transform(pictures)
    alone = np.vstack([words.transform([picture]) for picture in pictures])
    np.testing.assert_array_equal(together, alone)


def test_chunks_change_nothing(pictures, words, monkeypatch):
    whole = words.transform(pictures)
    monkeypatch.setattr(module, "_AT_ONCE", 5)
    np.testing.assert_array_equal(words.transform(pictures), whole)


@pytest.mark.parametrize("normalization", ["none", "l1", "l2", "hellinger"])
def test_pictures_without_descriptors_have_zero_histograms(words, normalization):
    words.set_params(normalization=normalization)
    assert not words.transform([np.zeros((5, 5)), np.zeros((5, 5, 3))]).any()
    assert words.transform([]).shape == (0, 12)


def test_pictures_without_descriptors_do_not_disturb_fit(pictures, words):
    tiny = [np.zeros((4, 4))] * 2
    model = VisualWords(HOG(), 12, random_state=0).fit([*pictures, *tiny])
    assert model.words_.shape == (12, 31)


def test_constant_pictures_are_no_trouble():
    histograms = VisualWords(n_words=3, random_state=0).fit_transform(np.full((4, 40, 40), 9))
    assert histograms.max(axis=1).tolist() == [1] * 4


# --- The sample ---


def test_the_sample_is_bounded_and_takes_equally_from_each_picture(random):
    pictures = [np.full((n, 1), i) for i, n in enumerate([3, 50, 1000])]
    sample = VisualWords(Rows(), max_descriptors=61)._sample(pictures, np.random.RandomState(0))
    assert np.bincount(sample.ravel().astype(int)).tolist() == [3, 20, 20]


def test_of_very_many_pictures_only_some_are_described():
    pictures = np.arange(200.0).reshape(100, 2, 1)
    descriptor = Rows()
    sample = VisualWords(descriptor, max_descriptors=30)._sample(pictures, np.random.RandomState(0))
    assert len(np.unique(sample)) == len(sample) == 30
    assert descriptor.asked == 30


# --- Errors ---


def test_too_few_descriptors_are_an_error(pictures):
    with pytest.raises(ValueError, match="have 3 descriptors, fewer than 5 words"):
        VisualWords(Rows(), 5).fit([np.ones((3, 2))])
    with pytest.raises(ValueError, match="have 0 descriptors"):
        VisualWords(HOG(), 5).fit([np.zeros((4, 4))])
    with pytest.raises(ValueError, match="have 0 descriptors"):
        VisualWords(HOG(), 5).fit([])


def test_gray_and_color_do_not_mix(pictures, color, gray):
    model = VisualWords(n_words=5, random_state=0)
    with pytest.raises(ValueError, match="all pictures in gray, or all in color"):
        model.fit([gray, color])
    with pytest.raises(ValueError, match="picture 1 have 384 values, those of the others 128"):
        model.fit([gray]).transform([gray, color])


def test_parameters_out_of_range_are_refused(pictures):
    with pytest.raises(ValueError, match=r"'normalization' parameter of VisualWords must be .* Got 'l3'"):
        VisualWords(HOG(), 5, normalization="l3").fit(pictures)
    for n_words in (0, 11):
        with pytest.raises(ValueError, match=r"n_words.* parameter|fewer than 11 words"):
            VisualWords(HOG(), n_words, max_descriptors=10).fit(pictures)


def test_not_fitted(pictures):
    with pytest.raises(NotFittedError):
        VisualWords().transform(pictures)


# --- As a part of scikit-learn ---


def test_is_a_scikit_learn_transformer(pictures, words):
    copy = clone(words)
    assert copy.get_params()["descriptor"] == HOG()
    assert not hasattr(copy, "words_")
    again = pickle.loads(pickle.dumps(words))  # noqa: S301
    np.testing.assert_array_equal(again.transform(pictures), words.transform(pictures))
    assert words.get_feature_names_out().tolist()[:2] == ["word0", "word1"]
    pipeline = make_pipeline(VisualWords(HOG(), 4, random_state=0), StandardScaler())
    assert pipeline.fit_transform(pictures).shape == (9, 4)
