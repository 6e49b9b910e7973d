"""The label tree: how classes are grouped, and that the score is the product along the path."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from openworld.baselines.label_tree import LabelTree, Node, choose_branch, group_classes


def test_close_means_share_a_group() -> None:
    means = np.array([[0.0], [10], [0.1], [20], [10.1], [20.1]])
    groups = group_classes(means, 3)
    assert groups[0] == groups[2]
    assert groups[1] == groups[4]
    assert groups[3] == groups[5]
    assert len(set(groups)) == 3
    assert group_classes(means, 6).tolist() == [0, 1, 2, 3, 4, 5]


def test_means_that_coincide_are_divided_all_the_same() -> None:
    assert sorted(np.bincount(group_classes(np.zeros((7, 2)), 3))) == [2, 2, 3]


def test_score_is_the_product_along_the_path() -> None:
    random = np.random.default_rng(0)
    codes = np.repeat(np.arange(4), 20)
    corners = np.array([[0.0, 0], [0, 2], [9, 0], [9, 2]])
    vectors = corners[codes] + random.standard_normal((80, 2))
    tree = Node(vectors, codes, np.arange(4), corners, 2)
    assert [branch.members.tolist() for branch in tree.branches] == [[0, 1], [2, 3]]
    asked = random.uniform(-3, 12, size=(30, 2))
    scores = np.zeros((30, 4))
    tree.follow(asked, np.ones(30), scores)
    for side, branch in enumerate(tree.branches):
        weights, intercepts = choose_branch(vectors, codes // 2)
        reached = softmax(asked @ weights + intercepts, axis=1)[:, side]
        here = codes // 2 == side
        weights, intercepts = choose_branch(vectors[here], codes[here])
        chosen = softmax(asked @ weights + intercepts, axis=1)
        assert scores[:, branch.members] == pytest.approx(reached[:, None] * chosen)
    assert scores.sum(axis=1) == pytest.approx(np.ones(30))


def test_every_class_is_a_leaf_once() -> None:
    X, y = load_digits(return_X_y=True)
    scores = LabelTree(branching=2)._train(X[:300], y[:300], 10)(X)
    assert scores.sum(axis=1) == pytest.approx(np.ones(len(X)))


@pytest.mark.parametrize("branching", [2, 4, 16])
def test_digits(branching: int) -> None:
    X, y = load_digits(return_X_y=True)
    known, training = y < 6, np.arange(len(y)) % 2 == 0
    model = LabelTree(branching).fit(X[known & training], y[known & training])
    decision = model.decision_function(X[~training])
    seen = known[~training]
    assert np.mean(model.classes_[decision[seen].argmax(axis=1)] == y[known & ~training]) > 0.95
    assert roc_auc_score(seen, decision.max(axis=1)) > 0.8


def test_refuses_a_tree_without_branches() -> None:
    X, y = load_digits(return_X_y=True)
    with pytest.raises(ValueError, match="branching"):
        LabelTree(1).fit(X[:50], y[:50])


@pytest.mark.parametrize("labels", [[0, 1], [0, 0, 0], [0, 0, 1, 1, 2]])
def test_few_samples_and_classes(labels: list[int]) -> None:
    X = load_digits().data[: len(labels)]
    assert np.isfinite(LabelTree(threshold=0.1).fit(X, labels).decision_function(X)).all()
