"""Streaming LDA against a loop over samples and the authors' code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.covariance import OAS
from sklearn.datasets import load_digits

from openworld.baselines.streaming_lda import StreamingLDA


def discriminants(model: StreamingLDA, queries: Any) -> Any:
    scorer: Any = model._scorer
    return scorer.discriminants(queries)


def test_start_against_the_authors_code(small_data: Any) -> None:
    """`StreamingLDA.fit_base` and `predict` of tyler-hayes/Deep_SLDA, commit 01d94cd, on the CPU."""
    X, y, queries = small_data
    expected = [
        [2.6811704428, -12.1122302943, -8.5390676889],
        [-8.3387464309, 7.5141991866, -11.434591048],
        [-10.4677668873, 3.7221848171, -14.5538434711],
        [2.4982194164, -7.1824616245, 0.4480541485],
    ]
    model = StreamingLDA(threshold=0.5).fit(X[:36], y[:36])
    np.testing.assert_allclose(discriminants(model, queries), expected, rtol=1e-7)
    odds = np.exp(expected)
    probabilities = odds / odds.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.decision_function(queries), probabilities - 0.5, rtol=1e-6)


def test_one_sample_at_a_time(small_data: Any) -> None:
    """The paper's running update, with n_y / (n_y + 1) for t / (t + 1), in a random order."""
    X, y, queries = small_data
    model = StreamingLDA(eps=1e-3, threshold=0.5).fit(X[:24], y[:24])
    means, counts = {c: np.zeros(5) for c in range(4)}, dict.fromkeys(range(4), 0)
    covariance = np.zeros((5, 5))
    later = np.random.default_rng(0).permutation(np.arange(24, 48))
    for t, i in enumerate(np.r_[:24, later]):
        c, n = int(y[i]), counts[int(y[i])]
        delta = n / (n + 1) * np.outer(X[i] - means[c], X[i] - means[c])
        covariance = (t * covariance + delta) / (t + 1)
        means[c], counts[c] = (n * means[c] + X[i]) / (n + 1), n + 1
    for i in later:
        model.partial_fit(X[i : i + 1], y[i : i + 1])
    residuals = X - np.array([means[int(c)] for c in y])
    np.testing.assert_allclose(covariance, residuals.T @ residuals / 48, rtol=1e-9)
    shrunk = OAS(assume_centered=True).fit(residuals).covariance_
    precision = np.linalg.inv((1 - 1e-3) * shrunk + 1e-3 * np.eye(5))
    for c in range(4):
        expected = queries @ precision @ means[c] - means[c] @ precision @ means[c] / 2
        np.testing.assert_allclose(discriminants(model, queries)[:, c], expected, rtol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_two_classes_and_single_samples(dtype: Any, small_data: Any) -> None:
    X, y, _ = small_data
    two = y < 2
    model = StreamingLDA().fit(X[two].astype(dtype), y[two])
    assert model.threshold_ == 0.5  # nothing to compare a single known class with
    assert np.mean(model.predict(X[two]) == y[two]) > 0.9
    model.partial_fit(np.full((1, 5), 20.0, dtype=dtype), [7])
    assert model.classes_.tolist() == [0, 1, 7]
    assert np.all(np.isfinite(model.decision_function(1e6 * X)))


def test_digits() -> None:
    X, y = load_digits(return_X_y=True)
    X, y, X_test, y_test = X[::2], y[::2], X[1::2], y[1::2]
    model = StreamingLDA().fit(X[y < 6], y[y < 6])
    model.partial_fit(X[(y == 6) | (y == 7)], y[(y == 6) | (y == 7)])
    answers = model.predict(X_test)
    assert np.mean(answers[y_test < 8] == y_test[y_test < 8]) > 0.65
    assert np.mean(answers[y_test >= 8] == -1) > 0.7
    closed = model.classes_[model.decision_function(X_test).argmax(axis=1)]
    assert np.mean(closed[y_test < 8] == y_test[y_test < 8]) > 0.93
