"""Sums over classes, against a loop over the samples."""

from __future__ import annotations

import numpy as np
import pytest

from openworld.recognition.class_sums import ClassSums

RANDOM = np.random.default_rng(5)


def by_loop(X, codes, weights, n_classes):
    """Return counts, sums, and the scatter of each class about its mean, one sample at a time."""
    n_features = X.shape[1]
    counts, sums = np.zeros(n_classes), np.zeros((n_classes, n_features))
    for x, code, weight in zip(X.astype(float), codes, weights, strict=True):
        counts[code] += weight
        sums[code] += weight * x
    scatters = np.zeros((n_classes, n_features, n_features))
    for x, code, weight in zip(X.astype(float), codes, weights, strict=True):
        centered = x - sums[code] / counts[code]
        scatters[code] += weight * np.outer(centered, centered)
    return counts, sums, scatters


@pytest.mark.parametrize("n_features", [1, 2, 4, 5, 9])  # up to 4 all scatters are made at once
@pytest.mark.parametrize("at_once", [1, 40, 1 << 20])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
@pytest.mark.parametrize("weighted", [False, True])
def test_against_a_loop(n_features, at_once, dtype, weighted, monkeypatch):
    monkeypatch.setattr("openworld.recognition.class_sums._NUMBERS_AT_ONCE", at_once)
    X = (100 * RANDOM.random((60, n_features))).astype(dtype)
    codes = np.r_[np.arange(7), RANDOM.integers(0, 7, 53)]
    weights = RANDOM.random(60) + 0.5 if weighted else None
    counts, sums, scatters = by_loop(X, codes, np.ones(60) if weights is None else weights, 7)
    found = ClassSums(X, codes, weights, 7)
    means = sums / counts[:, np.newaxis]
    assert np.allclose(found.counts, counts, rtol=1e-13)
    assert np.allclose(found.sums(), sums, rtol=1e-13)
    assert np.allclose(found.class_scatters(means), scatters, rtol=1e-11, atol=1e-9)
    assert np.allclose(found.scatter(means).total, scatters.sum(axis=0), rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("n_features", [2, 9])
def test_of_nothing(n_features):
    found = ClassSums(np.empty((0, n_features), np.float32), np.empty(0, np.intp), None, 0)
    none = np.empty((0, n_features))
    assert found.sums().shape == none.shape
    assert found.class_scatters(none).shape == (0, n_features, n_features)
    assert not found.scatter(none).total.any()
