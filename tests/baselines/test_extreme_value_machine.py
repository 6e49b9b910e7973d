"""The Extreme Value Machine against loops, scipy, libMR and the EVM package."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.stats import weibull_min
from sklearn.datasets import load_digits

from openworld.baselines.extreme_value_machine import (
    CosineExtremeValueMachine,
    ExtremeValueMachine,
    fit_margins,
    greedy_cover,
    probability,
)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20))
def test_any_margins_can_be_fitted(margins: list[float]) -> None:
    for found in fit_margins(np.array([margins])):
        assert np.all(np.isfinite(found))
        assert np.all(found > 0)


def test_margins_of_different_number() -> None:
    tails = np.array([[np.inf] * 3, [1.0, 2.0, 4.0], [1.0, 2.0, np.inf], [0.0, 0.0, np.inf]])
    shapes, scales = fit_margins(tails)
    assert 0 < scales[3] < 1e-9
    assert (shapes[0], scales[0]) == (1, 1)
    for i in (1, 2):
        expected = weibull_min.fit(tails[i, : 4 - i], floc=0)
        np.testing.assert_allclose([shapes[i], scales[i]], [expected[0], expected[2]], rtol=1e-3)


def naive_psi(X: Any, y: Any, queries: Any, tail_size: int, metric: Any) -> tuple[Any, Any]:
    """psi of every sample at every query and at every sample, by loops and scipy."""
    at_queries, at_samples = np.empty((len(queries), len(X))), np.empty((len(X), len(X)))
    for i in range(len(X)):
        margins = np.sort(cdist(X[i : i + 1], X[y != y[i]], metric)[0] / 2)[:tail_size]
        shape, _, scale = weibull_min.fit(margins, floc=0)
        for places, found in ((queries, at_queries), (X, at_samples)):
            distances = cdist(X[i : i + 1], places, metric)[0]
            found[:, i] = np.exp(-((distances / scale) ** shape))
    return at_queries, at_samples


@pytest.mark.parametrize(
    ("baseline", "metric"), [(ExtremeValueMachine, "euclidean"), (CosineExtremeValueMachine, "cosine")]
)
def test_model_one_sample_at_a_time(baseline: Any, metric: Any, small_data: Any) -> None:
    X, y, queries = small_data
    queries = np.vstack([queries / 2, X[::7] + 0.1])
    at_queries, at_samples = naive_psi(X, y, queries, 10, metric)
    whole = baseline(tail_size=10, cover_threshold=1.5, threshold=0.0).fit(X, y)
    assert len(whole.extreme_vectors_.points) == len(X)
    expected = np.column_stack([at_queries[:, y == c].max(axis=1) for c in range(4)])
    np.testing.assert_allclose(probability(whole.decision_function(queries)), expected, rtol=2e-3, atol=1e-9)

    # Reduction: every sample is covered by a vector of its class that was kept, and fewer are kept.
    reduced = baseline(tail_size=10, cover_threshold=0.3, threshold=0.0).fit(X, y).extreme_vectors_
    lengths = np.linalg.norm(X, axis=1, keepdims=True) if metric == "cosine" else 1.0
    kept = np.array([np.linalg.norm(X / lengths - point, axis=1).argmin() for point in reduced.points])
    assert len(kept) < len(X)
    for j in range(len(X)):
        own = kept[y[kept] == y[j]]
        assert j in own or at_samples[j, own].max() > 0.299


def test_cover_against_the_evm_package() -> None:
    """`EVM.EVM._set_cover` of the package EVM, version 0.1.2, given these psi and a threshold of 0.5."""
    points = np.sin(np.arange(1, 41) ** 1.5).reshape(20, 2)
    scales = 0.3 + 0.3 * np.abs(np.cos(np.arange(20) ** 1.7))
    shapes = 2 + np.sin(np.arange(20))
    psi = np.exp(-((cdist(points, points) / scales[:, np.newaxis]) ** shapes[:, np.newaxis]))
    assert greedy_cover(psi >= 0.5).tolist() == [2, 8, 3, 13, 0, 5, 6, 12, 15]


def test_new_class_by_hand() -> None:
    """Margins on a line: a new class between two others comes nearer to both."""
    model = ExtremeValueMachine(tail_size=2, threshold=0.0).fit([[0.0], [10.0], [14.0]], [0, 1, 1])
    vectors = model.extreme_vectors_
    tails = dict(zip(vectors.points[:, 0].tolist(), vectors.tails.tolist(), strict=True))
    assert tails[0.0] == [5, 7]
    model.partial_fit([[4.0], [30.0]], [2, 2])
    vectors = model.extreme_vectors_
    tails = dict(zip(vectors.points[:, 0].tolist(), vectors.tails.tolist(), strict=True))
    np.testing.assert_allclose(tails[0.0], [2, 5], rtol=1e-9)
    np.testing.assert_allclose(tails[4.0], [2, 3], rtol=1e-9)
    np.testing.assert_allclose(tails[30.0], [8, 10] if 14.0 in tails else [10, 15], rtol=1e-9)
    assert model.predict([[0.1], [4.1], [30.0], [1e6]]).tolist() == [0, 2, 2, -1]


def test_without_reduction_learning_later_is_learning_at_once(small_data: Any) -> None:
    X, y, queries = small_data
    at_once = ExtremeValueMachine(cover_threshold=1.5, threshold=0.0, tail_size=15).fit(X, y)
    pieces = ExtremeValueMachine(cover_threshold=1.5, threshold=0.0, tail_size=15).fit(X[:12], y[:12])
    for i in np.array_split(np.random.default_rng(0).permutation(np.arange(12, 48)), 5):
        pieces.partial_fit(X[i], y[i])
    np.testing.assert_allclose(
        pieces.decision_function(queries), at_once.decision_function(queries), rtol=1e-9
    )


def test_only_vectors_are_stored() -> None:
    X, y = load_digits(return_X_y=True)
    model = ExtremeValueMachine().fit(X[y < 5], y[y < 5]).partial_fit(X[y >= 5], y[y >= 5])
    assert not hasattr(model, "_samples")
    assert len(model.extreme_vectors_.points) < 0.7 * len(X)


def test_many_features_do_not_make_all_scores_equal() -> None:
    """psi is 0 as a float for most samples here; the score still finds the right class."""
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(6), 20)
    X = random.standard_normal((6, 400))[y] * 0.5 + random.standard_normal((120, 400))
    model = ExtremeValueMachine().fit(X[::2], y[::2])
    scores = model.decision_function(X[1::2]) + model.threshold_
    assert np.mean(probability(scores).max(axis=1) == 0) > 0.5
    assert np.mean(scores.argmax(axis=1) == y[1::2]) > 0.7


@pytest.mark.parametrize("baseline", [ExtremeValueMachine, CosineExtremeValueMachine])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_two_classes_and_single_samples(baseline: Any, dtype: Any, small_data: Any) -> None:
    X, y, _ = small_data
    two = y < 2
    model = baseline().fit(X[two].astype(dtype), y[two])
    assert np.mean(model.predict(X[two]) == y[two]) > 0.6
    model.partial_fit(np.full((1, 5), -20.0, dtype=dtype), [7])
    model.partial_fit(X[:1].astype(dtype), [8])  # a sample of class 0 again: margins of 0
    model.partial_fit(np.zeros((1, 5), dtype=dtype), [9])
    assert model.classes_.tolist() == [0, 1, 7, 8, 9]
    assert model.predict(np.full((1, 5), -20.0)).tolist() == [7]
    assert np.all(np.isfinite(model.decision_function(X)))
    one_each = baseline(threshold=0.0).fit(np.eye(3, dtype=dtype), [0, 1, 2])
    assert one_each.predict(np.eye(3)).tolist() == [0, 1, 2]
    alone = baseline(threshold=0.0).fit(np.eye(2, dtype=dtype), [0, 0])
    assert np.all(np.isfinite(alone.decision_function(np.eye(2))))


def test_text_labels_of_another_array_type(small_data: Any) -> None:
    X, y, _ = small_data
    names = np.array([f"class {label}" for label in y])
    model = ExtremeValueMachine().fit(X[:24], names[:24]).partial_fit(X[24:], names[24:].astype(object))
    assert model.classes_.tolist() == sorted(set(names.tolist()))
    with pytest.raises(TypeError):
        model.partial_fit(X, y)


def test_tail_size_must_be_positive(small_data: Any) -> None:
    X, y, _ = small_data
    with pytest.raises(ValueError, match="tail_size"):
        ExtremeValueMachine(tail_size=0).fit(X, y)


@pytest.mark.parametrize("baseline", [ExtremeValueMachine(), CosineExtremeValueMachine()], ids=str)
def test_digits(baseline: Any) -> None:
    X, y = load_digits(return_X_y=True)
    X, y, X_test, y_test = X[::2], y[::2], X[1::2], y[1::2]
    model = baseline.fit(X[y < 6], y[y < 6]).partial_fit(X[(y == 6) | (y == 7)], y[(y == 6) | (y == 7)])
    answers = model.predict(X_test)
    assert np.mean(answers[y_test < 8] == y_test[y_test < 8]) > 0.8
    assert np.mean(answers[y_test >= 8] == -1) > 0.8
