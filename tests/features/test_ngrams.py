"""Hashed character n-grams."""

from __future__ import annotations

import numpy as np

from openworld.features import load_extractor


def test_a_feature_does_not_depend_on_its_batch():
    extractor = load_extractor("ngrams")
    sentences = ["how much is left", "", "日本語 and emoji 🙂"]
    together = extractor.transform(sentences)
    np.testing.assert_array_equal(np.concatenate([extractor.transform([s]) for s in sentences]), together)
    assert together.shape == (3, extractor.n_features)
    assert extractor.transform([]).shape == (0, extractor.n_features)
    assert not together[1].any()


def test_ngrams_have_length_1_and_know_likeness():
    extractor = load_extractor("ngrams")
    X = extractor.transform(["transfer money", "Transfer money", "transferring money", "what is the weather"])
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(X[0], X[1])
    assert X[0] @ X[2] > 0.6 > 0.3 > X[0] @ X[3]


def test_ngrams_stay_what_they_are():
    """By hand: " a", "a " and " a " hashed (murmurhash3), each 1/sqrt(3) with the sign of its hash."""
    from sklearn.utils import murmurhash3_32

    expected = np.zeros(2048)
    for piece in (" a", "a ", " a "):
        code = murmurhash3_32(piece, seed=0)
        expected[abs(code) % 2048] += np.sign(code) / np.sqrt(3)
    np.testing.assert_allclose(load_extractor("ngrams").transform(["a"])[0], expected, atol=1e-6)
