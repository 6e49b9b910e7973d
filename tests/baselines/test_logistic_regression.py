"""Thresholded logistic regression: the contract, and what its scores are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from openworld.baselines.logistic_regression import MaximumLogit, MaximumProbability

BASELINES = [MaximumLogit(), MaximumProbability()]


@pytest.mark.parametrize("n_classes", [2, 5])
def test_scores_are_logits_and_probabilities(n_classes: int) -> None:
    X, y = load_digits(return_X_y=True)
    X, y = X[:500], y[:500]
    shown = y < n_classes
    model = MaximumLogit(threshold=0.0).fit(X[shown], y[shown])
    plain = make_pipeline(Normalizer(), StandardScaler(), LogisticRegression(max_iter=200))
    plain.fit(model._samples, model._labels)
    logits = model.decision_function(X)
    assert logits.shape == (500, n_classes)
    found = logits[:, 1] if n_classes == 2 else logits
    np.testing.assert_allclose(found, plain.decision_function(X), rtol=1e-6, atol=1e-6)
    if n_classes > 2:
        probabilities = MaximumProbability(threshold=0.0).fit(X[shown], y[shown]).decision_function(X)
        np.testing.assert_allclose(probabilities, plain.predict_proba(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("baseline", BASELINES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_single_samples(baseline: Any, dtype: Any) -> None:
    X, y = load_digits(return_X_y=True)
    X, y = X[:300].astype(dtype), y[:300]
    model = baseline.__class__().fit(X[y < 4], y[y < 4])
    model.partial_fit(X[y == 7][:1], y[y == 7][:1])
    assert model.classes_.tolist() == [0, 1, 2, 3, 7]
    assert np.all(np.isfinite(model.decision_function(X)))


@pytest.mark.parametrize(("baseline", "least"), [(MaximumLogit(), 0.5), (MaximumProbability(), 0.7)], ids=str)
def test_digits(baseline: Any, least: float) -> None:
    X, y = load_digits(return_X_y=True)
    X, y, X_test, y_test = X[::2], y[::2], X[1::2], y[1::2]
    answers = baseline.fit(X[y < 8], y[y < 8]).predict(X_test)
    assert np.mean(answers[y_test < 8] == y_test[y_test < 8]) > 0.75
    assert np.mean(answers[y_test >= 8] == -1) > least
