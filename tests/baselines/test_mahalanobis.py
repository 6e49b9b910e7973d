"""Mahalanobis distances against loops and pytorch-ood."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.covariance import OAS
from sklearn.datasets import load_digits

from openworld.baselines.mahalanobis import Mahalanobis, RelativeMahalanobis
from openworld.recognition import CrossClassValidation, KnownRecall

BASELINES = [Mahalanobis(), RelativeMahalanobis()]


def test_against_pytorch_ood(small_data: Any) -> None:
    """`pytorch_ood.detector.Mahalanobis` and `RMD`, 0.4.0, whose covariances lack the factor 1 / N."""
    X, y, queries = small_data
    expected: list[tuple[Any, list[float]]] = [
        (Mahalanobis, [22.6129907863, 19.9635100267, 48.2390636062, 9.873387722]),
        (RelativeMahalanobis, [8.0700118664, 5.2650872564, 17.3779250731, 1.947958437]),
    ]
    for baseline, distances in expected:
        model = baseline(shrinkage=0.0, threshold=0.0).fit(X, y)
        np.testing.assert_allclose(-model.decision_function(queries).max(axis=1), distances, rtol=1e-4)


@pytest.mark.parametrize("relative", [False, True])
def test_equations_one_sample_at_a_time(relative: bool, small_data: Any) -> None:
    X, y, queries = small_data
    means = np.array([X[y == c].mean(axis=0) for c in range(4)])
    within = OAS(assume_centered=True).fit(X - means[y]).covariance_
    background = OAS(assume_centered=True).fit(X - X.mean(axis=0)).covariance_
    baseline: Any = RelativeMahalanobis if relative else Mahalanobis
    scores = baseline(threshold=0.0).fit(X, y).decision_function(queries)
    for query, score in zip(queries, scores, strict=True):
        for c in range(4):
            distance = (query - means[c]) @ np.linalg.inv(within) @ (query - means[c])
            if relative:
                away = query - X.mean(axis=0)
                distance -= away @ np.linalg.inv(background) @ away
            assert score[c] == pytest.approx(-distance, rel=1e-9)


@pytest.mark.parametrize("baseline", BASELINES, ids=str)
def test_learning_in_pieces_is_learning_at_once(baseline: Any, small_data: Any) -> None:
    X, y, queries = small_data
    at_once = baseline.__class__().fit(X, y)
    pieces = baseline.__class__().fit(X[:24], y[:24])
    for i in np.random.default_rng(0).permutation(np.arange(24, 48)):
        pieces.partial_fit(X[i : i + 1], y[i : i + 1])
    np.testing.assert_allclose(
        pieces.decision_function(queries), at_once.decision_function(queries), rtol=1e-8
    )
    assert not hasattr(pieces, "_samples")


def test_calibration_is_what_the_definition_says(small_data: Any) -> None:
    """The held-out share of each class, judged by statistics of the others, one fold at a time."""
    X, y, _ = small_data
    calibrator = CrossClassValidation(KnownRecall(0.9), validation_fraction=0.25)
    model = Mahalanobis(shrinkage=0.1, threshold=calibrator).fit(X, y)
    samples, codes = model._held_out(0.25)
    assert np.bincount(codes).tolist() == [3, 3, 3, 3]
    shown = ~np.any(np.all(X[:, np.newaxis] == samples, axis=2), axis=1)
    means = np.array([X[shown & (y == c)].mean(axis=0) for c in range(4)])
    residuals = X[shown] - means[y[shown]]
    covariance = residuals.T @ residuals / shown.sum()
    precision = np.linalg.inv(0.9 * covariance + 0.1 * np.eye(5) * np.trace(covariance) / 5)

    def outlyingness(known: Any) -> Any:
        away = samples[:, np.newaxis] - means[known]
        return np.einsum("nkd,de,nke->nk", away, precision, away)

    assert model.threshold_ == pytest.approx(-calibrator.find(outlyingness, codes, 4).tau, rel=1e-9)


@pytest.mark.parametrize("baseline", BASELINES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_two_classes_and_single_samples(baseline: Any, dtype: Any, small_data: Any) -> None:
    X, y, _ = small_data
    two = y < 2
    model = baseline.__class__().fit(X[two].astype(dtype), y[two])
    assert np.mean(model.predict(X[two]) == y[two]) > 0.5
    model.partial_fit(np.full((1, 5), 20.0, dtype=dtype), [7])
    assert model.classes_.tolist() == [0, 1, 7]
    assert model.predict(np.full((1, 5), 20.0)).tolist() == [7]
    one_each = baseline.__class__(threshold=-1.0).fit(np.eye(3, dtype=dtype), [0, 1, 2])
    assert np.all(np.isfinite(one_each.decision_function(np.eye(3))))


def test_repeated_features_do_not_stop_it(small_data: Any) -> None:
    X, y, _ = small_data
    twice = np.hstack([X, X])
    assert np.mean(Mahalanobis(shrinkage=0.0).fit(twice, y).predict(twice) == y) > 0.5


@pytest.mark.parametrize("baseline", BASELINES, ids=str)
def test_two_samples_of_each_class(baseline: Any, small_data: Any) -> None:
    """Holding one of two out leaves no scatter to judge by."""
    X, y, _ = small_data
    few = np.r_[:2, 12:14, 24:26]
    model = baseline.__class__().fit(X[few], y[few])
    assert np.mean(model.predict(X[few]) == y[few]) > 0.5


def test_too_few_samples_to_calibrate_is_said() -> None:
    with pytest.raises(ValueError, match="at least 2 classes with 2 samples"):
        Mahalanobis().fit(np.eye(3), [0, 1, 2])


@pytest.mark.parametrize(("baseline", "least"), [(Mahalanobis(), 0.6), (RelativeMahalanobis(), 0.7)], ids=str)
def test_digits(baseline: Any, least: float) -> None:
    X, y = load_digits(return_X_y=True)
    X, y, X_test, y_test = X[::2], y[::2], X[1::2], y[1::2]
    model = baseline.fit(X[y < 6], y[y < 6]).partial_fit(X[(y == 6) | (y == 7)], y[(y == 6) | (y == 7)])
    answers = model.predict(X_test)
    assert np.mean(answers[y_test < 8] == y_test[y_test < 8]) > 0.7
    assert np.mean(answers[y_test >= 8] == -1) > least
