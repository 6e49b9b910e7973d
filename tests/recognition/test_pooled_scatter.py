"""PooledScatter: a matrix and a few rows, with the total and the memory that they have together."""

from __future__ import annotations

import numpy as np

from openworld.recognition import ClassStatistics
from openworld.recognition.pooled_scatter import PooledScatter

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
