"""The 1-vs-Set machine: the slab's risk by hand, its planes against brute force, its geometry."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from openworld.baselines.linear_svm import fit_linear_svm, standardizer
from openworld.baselines.one_vs_set import OneVsSet, refine_slab


def risk_by_hand(
    margins: np.ndarray, positive: np.ndarray, near: float, far: float, pressures: tuple[float, float]
) -> float:
    """R_O = width / d+ + d+ / width + p_A w_A + p_Omega w_Omega, and 2 / F1 beside it."""
    inside = (margins >= near) & (margins <= far)
    if not (inside & positive).any():
        return np.inf
    own = margins[positive]
    needed = own.max() - own.min()
    precision, recall = positive[inside].mean(), inside[positive].mean()
    f1 = 2 * precision * recall / (precision + recall)
    accepted = margins[inside & positive]
    ratio = max(far - near, 1e-4) / needed
    empty = (accepted.min() - near) / needed, (far - accepted.max()) / needed
    return ratio + 1 / ratio + pressures[0] * empty[0] + pressures[1] * empty[1] + 2 / f1


def test_planes_of_a_class_cut_out_of_its_negatives() -> None:
    margins = np.array([-3, -2, -1, 1, 2, 3, 6.0])
    positive = np.array([0, 0, 0, 1, 1, 1, 0], dtype=bool)
    assert refine_slab(margins, positive) == (1.0, 3.0)
    assert risk_by_hand(margins, positive, 1, 3, (0, 0)) == pytest.approx(4)


def test_planes_leave_out_a_stray_sample() -> None:
    """Up to 3.5 the risk is 1 + 1 + 2 * 18 / 10 = 5.6; up to 2.5, 0.6 + 1 / 0.6 + 2 * 9 / 8 = 4.5."""
    margins = np.array([1, 1.5, 2, 2.5, 3.5, *np.linspace(2.6, 3.4, 8)])
    positive = np.arange(len(margins)) < 5
    assert refine_slab(margins, positive) == (1.0, 2.5)


@pytest.mark.parametrize("pressures", [(0.0, 0.0), (1.0, 0.5)])
@pytest.mark.parametrize("seed", range(10))
def test_no_other_plane_is_better_and_no_slab_much(seed: int, pressures: tuple[float, float]) -> None:
    random = np.random.default_rng(seed)
    positive = np.arange(40) < 12
    margins = np.where(positive, random.normal(0.7, 0.5, size=40), random.normal(-0.8, 0.6, size=40))
    near, far = refine_slab(margins, positive, *pressures)
    found = risk_by_hand(margins, positive, near, far, pressures)
    assert found <= min(risk_by_hand(margins, positive, other, far, pressures) for other in margins) + 1e-12
    assert found <= min(risk_by_hand(margins, positive, near, other, pressures) for other in margins) + 1e-12
    best = min(
        risk_by_hand(margins, positive, low, high, pressures)
        for low in margins
        for high in margins
        if low < high
    )
    assert found <= 1.1 * best


def test_one_sample_has_the_slab_of_the_plane_and_its_mirror_image() -> None:
    assert refine_slab(np.array([-1.0, 0.7]), np.array([False, True])) == (0.0, 1.4)
    assert refine_slab(np.array([-1.0, -0.2]), np.array([False, True])) == (-0.4, 0.0)


def test_score_is_positive_inside_the_slab_and_negative_on_both_sides() -> None:
    X, y = load_digits(n_class=3, return_X_y=True)
    train, y, asked = X[:60], y[:60], X[60:]
    scale = standardizer(train, unit_length=True)
    weights, intercepts = fit_linear_svm(scale(train), y, 3, 3.0)
    scores = OneVsSet()._train(train, y, 3)(asked)
    n_beyond = 0
    for code in range(3):
        near, far = refine_slab(scale(train) @ weights[:, code] + intercepts[code], y == code)
        margins = scale(asked) @ weights[:, code] + intercepts[code]
        before, beyond = margins < near, margins > far
        n_beyond += beyond.sum()
        assert before.any()
        assert scores[before, code] == pytest.approx(margins[before] - near)
        assert scores[beyond, code] == pytest.approx(far - margins[beyond])
        assert np.all(scores[~before & ~beyond, code] >= 0)
    assert n_beyond > 0


def test_digits() -> None:
    X, y = load_digits(return_X_y=True)
    known, training = y < 6, np.arange(len(y)) % 2 == 0
    model = OneVsSet().fit(X[known & training], y[known & training])
    decision = model.decision_function(X[~training])
    seen = known[~training]
    assert np.mean(model.classes_[decision[seen].argmax(axis=1)] == y[known & ~training]) > 0.95
    assert roc_auc_score(seen, decision.max(axis=1)) > 0.75


@pytest.mark.parametrize("labels", [[0, 1], [0, 0, 0], [0, 0, 1, 1, 2]])
def test_few_samples_and_classes(labels: list[int]) -> None:
    X = load_digits().data[: len(labels)]
    assert np.isfinite(OneVsSet(threshold=0.0).fit(X, labels).decision_function(X)).all()
