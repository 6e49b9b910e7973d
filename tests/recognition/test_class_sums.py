"""Sums over classes, against a loop over the samples; and the pooled scatter, a matrix and a few rows."""

from __future__ import annotations

import numpy as np
import pytest

from openworld.recognition import ClassStatistics
from openworld.recognition.class_sums import ClassSums, PooledScatter

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
    for name in ("_NUMBERS_AT_ONCE", "_CACHED_NUMBERS"):
        monkeypatch.setattr(f"openworld.recognition.class_sums.{name}", at_once)
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


# -- pooled scatter -------------------------------------------------------------------------------

D = 600


def _rows(n: int, seed: int, n_features: int = D) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, n_features))


def test_a_few_rows_share_the_matrix_and_many_make_another() -> None:
    start = PooledScatter.of(_rows(100, 0))
    assert not len(start.rows)
    one = start + PooledScatter.of(_rows(3, 1))
    assert one.matrix is start.matrix
    assert len(one.rows) == 3
    many = one
    for seed in range(30):
        many = many + PooledScatter.of(_rows(3, seed))
        assert len(many.rows) <= 64
    assert many.matrix is not start.matrix
    assert len(one.rows) == 3  # unchanged


def test_of_few_features_only_the_matrix_is_kept() -> None:
    found = PooledScatter.of(_rows(3, 0, 5)) + PooledScatter.of(_rows(2, 1, 5))
    assert not len(found.rows)
    assert np.allclose(found.total, _rows(3, 0, 5).T @ _rows(3, 0, 5) + _rows(2, 1, 5).T @ _rows(2, 1, 5))


def test_rows_that_were_added_up_are_freed() -> None:
    many = PooledScatter.of(_rows(100, 0))
    for found in (many, many + PooledScatter.of(_rows(65, 1)), many - PooledScatter.of(_rows(3, 2))):
        assert all(array.base is None for array in found.arrays)


def test_total_and_trace() -> None:
    found, expected = PooledScatter(np.empty((0, D))), np.zeros((D, D))
    for n in (2, 80, 3, 1, 70):
        found, expected = found + PooledScatter.of(_rows(n, n)), expected + _rows(n, n).T @ _rows(n, n)
        assert np.allclose(found.total, expected)
        assert np.isclose(found.trace, np.trace(expected))
        assert np.array_equal(found.total, found.total.T)
    left = found - PooledScatter.of(_rows(80, 80))
    assert np.allclose(left.total, expected - _rows(80, 80).T @ _rows(80, 80))


def test_statistics_of_pieces_add_up() -> None:
    X, y = _rows(90, 7), np.arange(90) % 4
    whole, pieces = ClassStatistics("pooled").add(X, y), ClassStatistics("pooled")
    for start in range(0, 90, 7):
        pieces.add(X[start : start + 7], y[start : start + 7])
    assert np.allclose(pieces.scatter, whole.scatter)
    pieces.subtract(X[80:], y[80:])
    assert np.allclose(pieces.scatter, ClassStatistics("pooled").add(X[:80], y[:80]).scatter)
    whole.merge([0, 1], 0)
    assert np.allclose(whole.scatter, ClassStatistics("pooled").add(X, np.where(y == 1, 0, y)).scatter)
