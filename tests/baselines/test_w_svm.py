"""The W-SVM: the product of its three parts, and what it says far from all data."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import rbf_kernel

from openworld.baselines.linear_svm import one_vs_rest, standardizer
from openworld.baselines.pi_svm import fit_inclusion, held_out_scores, one_class_inclusion
from openworld.baselines.w_svm import WSVM, fit_rest


def test_probability_of_not_being_the_rest_is_libmrs() -> None:
    """w_score of libmr 0.1.9's MR().fit_high with a tail of 6."""
    rest = [-1.31, -1.12, -1.05, -0.98, -0.91, -0.7, -0.42, -0.11, 0.05, 0.32]
    scores = np.column_stack([[2.0, 3.0, *rest], np.zeros(12)])
    codes = np.array([0, 0] + [1] * 10)
    dual = np.column_stack([np.where(np.arange(12) >= 8, -1.0, 0.0), np.zeros(12)])  # 4 support vectors
    probability = fit_rest(scores, codes, dual).cdf(np.array([[-2], [-1], [-0.5], [0], [0.5], [1.0]]))[:, 0]
    expected = [0.0, 0.05202972, 0.30400982, 0.74489068, 0.97706872, 0.99981731]
    assert probability == pytest.approx(expected, abs=1e-6)


def test_score_is_the_product_of_its_parts() -> None:
    X, y = load_digits(n_class=4, return_X_y=True)
    train, y, asked = X[:150], y[:150], X[150:250]
    scale = standardizer(train, unit_length=False)
    gram, kernel = rbf_kernel(scale(train), gamma=1.0), rbf_kernel(scale(asked), scale(train), gamma=1.0)
    dual, intercepts = one_vs_rest(gram, y, 4, 10.0)
    held_out = held_out_scores(gram, y, dual, intercepts, 10.0)
    margins = kernel @ dual + intercepts
    p_eta = fit_inclusion(held_out, y, dual).survival(-margins)
    p_psi = fit_rest(held_out, y, dual).cdf(margins)
    one_class_dual, one_class = one_class_inclusion(gram, y, 4)
    p_o = one_class.survival(1 - kernel @ one_class_dual)
    iota = p_o > np.maximum(0.001, one_class.survival(1.0))
    assert WSVM()._train(train, y, 4)(asked) == pytest.approx(p_eta * p_psi * iota)
    assert 0 < iota.mean() < 1


@pytest.mark.parametrize("n_classes", [1, 3])
@pytest.mark.parametrize("per_class", [1, 2, 12])
def test_score_is_exactly_zero_far_from_all_data(n_classes: int, per_class: int) -> None:
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), per_class)
    X = random.standard_normal((len(y), 4)) + 3 * y[:, None]
    score = WSVM()._train(X, y, n_classes)
    assert np.all(score(1e4 * random.standard_normal((20, 4))) == 0)
    assert np.all(score(X).max(axis=1) >= 0)


def test_digits() -> None:
    X, y = load_digits(return_X_y=True)
    known, training = y < 6, np.arange(len(y)) % 2 == 0
    model = WSVM().fit(X[known & training], y[known & training])
    decision = model.decision_function(X[~training])
    seen = known[~training]
    assert np.mean(model.classes_[decision[seen].argmax(axis=1)] == y[known & ~training]) > 0.95
    assert roc_auc_score(seen, decision.max(axis=1)) > 0.9
    assert np.all(model.predict(1e4 * X[::50]) == model.unknown_label_)


@pytest.mark.parametrize("labels", [[0, 1], [0, 0, 0], [0, 0, 1, 1, 2]])
def test_few_samples_and_classes(labels: list[int]) -> None:
    X = load_digits().data[: len(labels)]
    assert np.isfinite(WSVM(threshold=0.1).fit(X, labels).decision_function(X)).all()
