"""Pegasos and passive-aggressive: steps by hand, scikit-learn's, the SVM's optimum, new rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import roc_auc_score
from sklearn.svm import LinearSVC

from openworld.baselines.online_linear import (
    PassiveAggressive,
    Pegasos,
    Rows,
    passive_aggressive_rule,
    pegasos_rule,
)

BOTH = [Pegasos, PassiveAggressive]


def test_pegasos_steps_by_hand() -> None:
    """With lambda = 1/2 the steps are eta = 2, 1, 2/3 and the shrinking 1 - eta lambda = 0, 1/2, 2/3."""
    weights, steps = np.zeros((2, 2)), np.zeros(2, dtype=np.int64)
    step = pegasos_rule(0.5)
    step(weights, steps, np.array([1.0, 0.0]), np.array([1.0, -1.0]))
    assert weights.tolist() == [[2, 0], [-2, 0]]
    step(weights, steps, np.array([0.5, 1.0]), np.array([-1.0, 1.0]))  # margins -1 and -1: both violated
    assert weights.tolist() == [[0.5, -1], [-0.5, 1]]
    step(weights, steps, np.array([-4.0, 0.0]), np.array([-1.0, 1.0]))  # margins 2 and 2: only shrinking
    assert weights == pytest.approx(np.array([[1, -2], [-1, 2]]) / 3)
    assert steps.tolist() == [3, 3]


def test_passive_aggressive_steps_by_hand() -> None:
    weights, steps = np.zeros((2, 2)), np.zeros(2, dtype=np.int64)
    step = passive_aggressive_rule(0.1)
    step(weights, steps, np.array([3.0, 1.0]), np.array([1.0, -1.0]))  # loss 1, |x|^2 = 10: a step of 0.1
    assert weights == pytest.approx(np.array([[0.3, 0.1], [-0.3, -0.1]]))
    step(weights, steps, np.array([1.0, 0.0]), np.array([-1.0, -1.0]))  # losses 1.3 and 0.7: at most C
    assert weights == pytest.approx(np.array([[0.2, 0.1], [-0.4, -0.1]]))
    step(weights, steps, np.array([10.0, 0.0]), np.array([1.0, -1.0]))  # margins 2 and 4: passive
    assert weights == pytest.approx(np.array([[0.2, 0.1], [-0.4, -0.1]]))


def test_passive_aggressive_is_scikit_learns() -> None:
    X, y = load_digits(n_class=2, return_X_y=True)
    X = X / 16
    theirs = SGDClassifier(
        learning_rate="pa1", eta0=0.03, penalty=None, fit_intercept=False, shuffle=False, max_iter=2, tol=None
    ).fit(X, y)
    weights, steps = np.zeros((1, X.shape[1])), np.zeros(1, dtype=np.int64)
    step = passive_aggressive_rule(0.03)
    for sample, label in zip(np.tile(X, (2, 1)), np.tile(y, 2), strict=True):
        step(weights, steps, sample, np.array([2.0 * label - 1]))
    assert weights == pytest.approx(theirs.coef_)


def test_pegasos_comes_near_the_optimum_of_the_svm() -> None:
    X, y = load_digits(n_class=3, return_X_y=True)
    X, y = X[:150], y[:150]
    rows = Rows.start(X, pegasos_rule(0.01), 3).learn(X, y, 60, 0)
    samples = rows._with_constant(X)

    def objective(weights: np.ndarray, code: int) -> float:
        hinge = np.maximum(0, 1 - np.where(y == code, 1, -1) * (samples @ weights))
        return 0.005 * weights @ weights + hinge.mean()

    for code in range(3):
        best = LinearSVC(C=1 / (0.01 * 150), loss="hinge", fit_intercept=False, max_iter=100_000, tol=1e-6)
        least = objective(best.fit(samples, y == code).coef_[0], code)
        assert least <= objective(rows.average[code], code) <= 1.02 * least


@pytest.mark.parametrize("model", BOTH)
def test_new_class_between_others_gets_its_own_row(model: Any) -> None:
    X, y = load_digits(n_class=5, return_X_y=True)
    names = np.array(["ant", "bee", "cat", "dog", "eel"])[y]
    later = np.isin(y, [1, 4])
    learned = model().fit(X[~later], names[~later])
    before = learned._scorer.weights.copy()
    learned.partial_fit(X[later], names[later])
    assert learned.classes_.tolist() == ["ant", "bee", "cat", "dog", "eel"]
    assert learned._scorer.weights.shape == (5, 65)
    assert learned._scorer.steps[1] < learned._scorer.steps[0] or model is PassiveAggressive
    nearest = [int(np.argmin(np.linalg.norm(learned._scorer.weights - row, axis=1))) for row in before]
    assert nearest == [0, 2, 3]
    assert np.mean(learned.classes_[learned.decision_function(X).argmax(axis=1)] == names) > 0.95


@pytest.mark.parametrize("model", BOTH)
def test_keeps_a_bounded_number_of_samples(model: Any) -> None:
    X, y = load_digits(return_X_y=True)
    learned = model(n_epochs=1, threshold=0.0).fit(X, y)
    assert not hasattr(learned, "_samples")
    kept, codes = learned._reservoir.samples(learned.classes_, 10_000)
    assert len(kept) == 1000
    assert np.bincount(codes).max() == 100


@pytest.mark.parametrize("model", BOTH)
def test_digits(model: Any) -> None:
    X, y = load_digits(return_X_y=True)
    known, training = y < 6, np.arange(len(y)) % 2 == 0
    learned = model().fit(X[known & training], y[known & training])
    decision = learned.decision_function(X[~training])
    seen = known[~training]
    assert np.mean(learned.classes_[decision[seen].argmax(axis=1)] == y[known & ~training]) > 0.95
    assert roc_auc_score(seen, decision.max(axis=1)) > 0.85
    learned.partial_fit(X[~known & training], y[~known & training])
    assert np.mean(learned.decision_function(X[~training]).argmax(axis=1) == y[~training]) > 0.9


@pytest.mark.parametrize("labels", [[0, 1], [0, 0, 0], [0, 0, 1, 1, 2]])
@pytest.mark.parametrize("model", BOTH)
def test_few_samples_and_classes(model: Any, labels: list[int]) -> None:
    X = load_digits().data[: len(labels)]
    assert np.isfinite(model(threshold=0.1).fit(X, labels).decision_function(X)).all()
