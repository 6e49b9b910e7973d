"""Nearest neighbors by hand, against pytorch-ood."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from openworld.baselines.base import Baseline
from openworld.baselines.nearest_neighbors import NearestNeighborDistance, OpenSetNearestNeighbor

BASELINES = [OpenSetNearestNeighbor(), NearestNeighborDistance(), NearestNeighborDistance(k=7)]


def test_ratio_by_hand() -> None:
    X, y = np.array([[0.0], [1.0], [10.0]]), np.array([0, 0, 1])
    model = OpenSetNearestNeighbor(threshold=-0.5).fit(X, y)
    # 3 is 2 from class 0 and 7 from class 1; 5.6 is 4.6 and 4.4; 10 is 9 and 0.
    expected = [[-2 / 7, 2 / 7 - 2], [4.4 / 4.6 - 2, -4.4 / 4.6]]
    np.testing.assert_allclose(model.decision_function([[3.0], [5.6]]) - 0.5, expected, rtol=1e-12)
    assert model.predict([[3.0], [5.6], [10.0], [-1e9]]).tolist() == [0, -1, 1, -1]


def test_ratio_as_in_the_paper(small_data: Any) -> None:
    X, y, queries = small_data
    scores = OpenSetNearestNeighbor(threshold=0.0).fit(X, y).decision_function(queries)
    for query, score in zip(queries, scores, strict=True):
        distances = np.linalg.norm(X - query, axis=1)
        t = distances.argmin()
        u = np.where(y != y[t], distances, np.inf).argmin()
        assert score.argmax() == y[t]
        assert score.max() == pytest.approx(-distances[t] / distances[u], rel=1e-9)


def test_same_place_in_two_classes_is_unknown() -> None:
    model = OpenSetNearestNeighbor(threshold=-0.9).fit([[0.0], [5.0], [0.0], [9.0]], [0, 0, 1, 1])
    assert model.predict([[0.0], [5.0]]).tolist() == [-1, 0]


def test_calibrated_ratio_stays_below_one(monkeypatch: pytest.MonkeyPatch, small_data: Any) -> None:
    """Where accepting everything seems best, what is infinitely far away is not accepted all the same."""
    monkeypatch.setattr(Baseline, "_find_threshold", lambda *_: -1.5)
    X, y, _ = small_data
    model = OpenSetNearestNeighbor().fit(X[:, :2], y)
    assert model.threshold_ == -0.999
    far = np.array([[1e9, 0.0], [0.0, -1e9], [1e9, 1e9]])
    assert np.all(model.predict(far) == -1)


def test_distance_to_neighbor_against_pytorch_ood(small_data: Any) -> None:
    """`pytorch_ood.detector.KNN`, version 0.4.0."""
    X, y, queries = small_data
    expected = {
        1: [0.6515203735, 0.4985369585, 0.5567718545, 0.4051246683],
        3: [0.8340517592, 0.665601997, 0.8258426739, 0.7487898817],
    }
    for k, distances in expected.items():
        model = NearestNeighborDistance(k=k, threshold=0.0).fit(X, y)
        np.testing.assert_allclose(-model.decision_function(queries).max(axis=1), distances, atol=1e-9)


def test_distance_to_neighbor_names_the_nearest_class(small_data: Any) -> None:
    X, y, queries = small_data
    directions = X / np.linalg.norm(X, axis=1, keepdims=True)
    model = NearestNeighborDistance(k=100, threshold=-5.0).fit(X, y)  # k is more than there are
    for query, answer in zip(queries, model.predict(queries), strict=True):
        assert answer == y[np.linalg.norm(directions - query / np.linalg.norm(query), axis=1).argmin()]


def test_k_must_be_positive(small_data: Any) -> None:
    X, y, _ = small_data
    with pytest.raises(ValueError, match="'k' parameter"):
        NearestNeighborDistance(k=0).fit(X, y)


@pytest.mark.parametrize("baseline", BASELINES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_two_classes_and_single_samples(baseline: Any, dtype: Any, small_data: Any) -> None:
    X, y, _ = small_data
    two = y < 2
    model = baseline.__class__(**baseline.get_params()).fit(X[two].astype(dtype), y[two])
    assert np.mean(model.predict(X[two]) == y[two]) > 0.6
    model.partial_fit(np.full((1, 5), 20.0, dtype=dtype), [7])
    model.partial_fit(np.zeros((1, 5), dtype=dtype), [8])
    assert model.classes_.tolist() == [0, 1, 7, 8]
    assert model.predict(np.full((1, 5), 20.0)).tolist() == [7]
    assert np.all(np.isfinite(model.decision_function(X)))


@pytest.mark.parametrize("baseline", [OpenSetNearestNeighbor(), NearestNeighborDistance()], ids=str)
def test_digits(baseline: Any) -> None:
    X, y = load_digits(return_X_y=True)
    X, y, X_test, y_test = X[::2], y[::2], X[1::2], y[1::2]
    model = baseline.fit(X[y < 6], y[y < 6]).partial_fit(X[(y == 6) | (y == 7)], y[(y == 6) | (y == 7)])
    answers = model.predict(X_test)
    assert np.mean(answers[y_test < 8] == y_test[y_test < 8]) > 0.85
    assert np.mean(answers[y_test >= 8] == -1) > 0.6
