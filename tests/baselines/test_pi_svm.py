"""The PI-SVM: its calibration against the formula and libMR, held-out scores against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC, OneClassSVM

from openworld.baselines.linear_svm import one_vs_rest
from openworld.baselines.pi_svm import (
    PISVM,
    fit_inclusion,
    held_out_scores,
    one_class_inclusion,
    upper_tail,
)


def test_probability_of_inclusion_is_libmrs() -> None:
    """1 - w_score of libmr 0.1.9's MR().fit_low with a tail of 6, and the formula of the docstring."""
    own = np.array([-1.31, -1.12, -1.05, -0.98, -0.91, -0.7, -0.42, -0.11, 0.05, 0.32])
    scores = np.append(own, [-3.0, -4.0])[:, None]
    codes = np.array([0] * 10 + [1] * 2)
    dual = np.where(np.arange(12) < 4, 1.0, 0.0)[:, None]  # 4 support vectors make a tail of 6
    inclusion = fit_inclusion(scores, codes, dual)
    asked = np.array([-2, -1, -0.5, 0, 0.5])
    found = inclusion.survival(-asked)
    assert found == pytest.approx(1 - np.array([1.0, 4.40745693e-01, 1.25940564e-02, 5.579e-06, 0]), abs=1e-6)
    largest = -0.7
    ratio = np.maximum(1 + largest - asked, 0) / inclusion.scale
    assert found == pytest.approx(np.exp(-(ratio**inclusion.shape)))


def test_held_out_scores_are_those_of_machines_not_shown_the_sample() -> None:
    random = np.random.default_rng(0)
    codes = np.array([0, 1, 2, 0, 1, 0, 1, 0, 1, 0, 3, 3])
    gram = rbf_kernel(random.standard_normal((12, 2)) + codes[:, None], gamma=1.0)
    dual, intercepts = one_vs_rest(gram, codes, 4, 10.0)
    scores = held_out_scores(gram, codes, dual, intercepts, 10.0)
    # The first samples of each class are held out together, then the second ones; the fourth join the first.
    out = np.array([0, 1, 7, 8, 10])  # the only sample of class 2 stays
    kept = np.setdiff1d(np.arange(12), out)
    for code in range(4):
        machine = SVC(C=10.0, kernel="precomputed").fit(gram[np.ix_(kept, kept)], codes[kept] == code)
        assert scores[out, code] == pytest.approx(
            machine.decision_function(gram[np.ix_(out, kept)]), abs=1e-6
        )
    assert scores[2] == pytest.approx(gram[2] @ dual + intercepts)


def test_one_class_scores_reach_from_minus_one() -> None:
    X = np.random.default_rng(0).standard_normal((30, 2))
    gram = rbf_kernel(X, gamma=1.0)
    dual, inclusion = one_class_inclusion(gram, np.zeros(30, dtype=np.intp), 1)
    machine = OneClassSVM(kernel="precomputed", nu=0.1).fit(gram)
    scores = gram @ dual[:, 0] - 1
    assert scores * machine.offset_[0] == pytest.approx(machine.decision_function(gram))
    assert inclusion.survival(1.0)[0] < inclusion.survival(0.0)[0] < inclusion.survival(-1.0)[0]


def test_tails() -> None:
    assert upper_tail(np.array([1.0, 5, 2, 4, 3]), 4).tolist() == [2, 3, 4, 5]
    assert upper_tail(np.array([1.0, 5, 2, 4, 3]), 0).tolist() == [3, 4, 5]
    assert upper_tail(np.array([-1.0]), 9).tolist() == [-1, 0]
    assert upper_tail(np.array([-1.0, -1, -1, -1]), 9).tolist() == [-1, -1, -1, -1, 0]


def test_scores_are_probabilities() -> None:
    X, y = load_digits(n_class=4, return_X_y=True)
    score = PISVM()._train(X[:200], y[:200], 4)(X[200:])
    assert score.min() >= 0
    assert score.max() <= 1
    assert np.mean(score.argmax(axis=1) == y[200:]) > 0.85


def test_digits() -> None:
    X, y = load_digits(return_X_y=True)
    known, training = y < 6, np.arange(len(y)) % 2 == 0
    model = PISVM().fit(X[known & training], y[known & training])
    decision = model.decision_function(X[~training])
    seen = known[~training]
    assert np.mean(model.classes_[decision[seen].argmax(axis=1)] == y[known & ~training]) > 0.95
    assert roc_auc_score(seen, decision.max(axis=1)) > 0.9


@pytest.mark.parametrize("labels", [[0, 1], [0, 0, 0], [0, 0, 1, 1, 2]])
def test_few_samples_and_classes(labels: list[int]) -> None:
    X = load_digits().data[: len(labels)]
    assert np.isfinite(PISVM(threshold=0.1).fit(X, labels).decision_function(X)).all()
