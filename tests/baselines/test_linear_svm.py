"""One-vs-rest linear SVMs: the contract, a solution by hand, and LinearSVC's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.svm import LinearSVC

from openworld.baselines.linear_svm import LinearSVM, fit_linear_svm, standardizer


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_solution_by_hand(C: float) -> None:
    """For -1 and +1 the minimum of w^2 / 2 + 2 C (1 - w)^2 is at w = 4 C / (1 + 4 C), b = 0."""
    weights, intercepts = fit_linear_svm(np.array([[-1.0], [1.0]]), np.array([0, 1]), 2, C)
    expected = 4 * C / (1 + 4 * C)
    assert weights == pytest.approx(np.array([[-expected, expected]]), abs=1e-6)
    assert intercepts == pytest.approx([0, 0], abs=1e-6)


def test_is_linear_svc() -> None:
    """With a constant feature of 30 scikit-learn's penalty on the bias is next to nothing."""
    X, y = load_digits(return_X_y=True)
    X = standardizer(X, unit_length=True)(X[:300])
    y = y[:300]
    weights, intercepts = fit_linear_svm(X, y, 10, 3.0)
    theirs = LinearSVC(C=3.0, dual=False, intercept_scaling=30, tol=1e-8, max_iter=10_000).fit(X, y)
    ours = X @ weights + intercepts
    assert np.max(np.abs(ours - theirs.decision_function(X))) < 0.02


def test_scaling_makes_the_mean_squared_length_one() -> None:
    X = np.random.default_rng(0).gamma(2, size=(50, 7)).astype(np.float32)
    for unit_length in (True, False):
        scaled = standardizer(X, unit_length=unit_length)(X)
        assert scaled.dtype == np.float64
        assert np.mean(np.sum(scaled**2, axis=1)) == pytest.approx(1)
    alike = standardizer(X, unit_length=True)
    assert alike(X) == pytest.approx(alike(5 * X), abs=1e-6)


def test_digits() -> None:
    X, y = load_digits(return_X_y=True)
    known, training = y < 6, np.arange(len(y)) % 2 == 0
    model = LinearSVM().fit(X[known & training], y[known & training])
    decision = model.decision_function(X[~training])
    seen = known[~training]
    assert np.mean(model.classes_[decision[seen].argmax(axis=1)] == y[known & ~training]) > 0.95
    assert roc_auc_score(seen, decision.max(axis=1)) > 0.85


@pytest.mark.parametrize("labels", [[0, 1], [0, 0, 0], [0, 0, 1, 1, 2]])
def test_few_samples_and_classes(labels: list[int]) -> None:
    X = load_digits().data[: len(labels)]
    assert np.isfinite(LinearSVM(threshold=0.0).fit(X, labels).decision_function(X)).all()
