"""NCM forests: routing and leaves against brute force, the split's gain, growing without retraining."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import entropy
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from openworld.baselines.ncm_forest import (
    Forest,
    MeanSplit,
    NCMForest,
    Tree,
    best_split,
    impurity,
    random_divisions,
)


def digits(n_class: int = 10) -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(n_class=n_class, return_X_y=True)
    return X, y


def grown(X: np.ndarray, y: np.ndarray, n_trees: int = 3) -> Forest:
    trees = [Tree(10, (0, number)) for number in range(n_trees)]
    return Forest(trees, np.empty((0, X.shape[1])), y[:0], 0).grown(X, y, int(y.max()) + 1)


def test_split_sends_a_sample_to_the_side_of_its_nearest_mean() -> None:
    split = MeanSplit(np.array([[0.0, 0], [10, 0], [0, 10]]), np.array([True, False, True]), 1, 2)
    asked = np.array([[1.0, 1], [9, 2], [2, 9], [5.1, 0], [4.9, 0]])
    assert split.goes_left(asked).tolist() == [True, False, True, False, True]


def test_impurity_is_the_entropy_times_the_number() -> None:
    counts = np.array([[5, 0, 3], [5, 4, 0], [0, 0, 0]])
    assert impurity(counts) == pytest.approx(counts.sum(axis=0) * entropy(counts, axis=0))


def test_best_split_divides_two_classes_cleanly() -> None:
    random = np.random.default_rng(0)
    codes = np.repeat([3, 7], 20)
    samples = random.standard_normal((40, 2)) + 10 * (codes == 7)[:, None]
    found = best_split(samples, codes, random)
    assert found is not None
    means, is_left, goes_left = found
    assert sorted(means[:, 0]) == pytest.approx([samples[:20, 0].mean(), samples[20:, 0].mean()])
    assert is_left.sum() == 1
    assert len(set(goes_left[:20])) == len(set(goes_left[20:])) == 1
    assert goes_left[0] != goes_left[-1]


def test_nothing_divides_one_class_or_equal_samples() -> None:
    random = np.random.default_rng(0)
    assert best_split(random.standard_normal((20, 2)), np.zeros(20, dtype=np.intp), random) is None
    assert best_split(np.ones((20, 2)), np.repeat([0, 1], 10), random) is None


@pytest.mark.parametrize("size", [2, 3, 8])
def test_divisions_have_means_on_both_sides(size: int) -> None:
    for seed in range(20):
        sums = random_divisions(size, np.random.default_rng(seed)).sum(axis=0)
        assert sums.min() >= 1
        assert sums.max() <= size - 1


def test_leaves_against_brute_force() -> None:
    X, y = digits(4)
    forest = grown(X[:300], y[:300])
    total = np.zeros((40, 4))
    for tree in forest.trees:
        for row, sample in enumerate(X[300:340]):
            node = tree.nodes[0]
            while isinstance(node, MeanSplit):
                nearest = np.argmin(np.linalg.norm(node.means - sample, axis=1))
                node = tree.nodes[node.left if node.is_left[nearest] else node.right]
            total[row] += np.bincount(y[:300][node], minlength=4) / len(node)
    assert forest(X[300:340]) == pytest.approx(total / 3)


def test_every_sample_is_in_one_leaf_and_leaves_are_small_or_pure() -> None:
    X, y = digits()
    for tree in grown(X, y).trees:
        leaves = [node for node in tree.nodes if not isinstance(node, MeanSplit)]
        assert sorted(np.concatenate(leaves)) == list(range(len(X)))
        assert all(len(leaf) < 10 or len(set(y[leaf])) == 1 for leaf in leaves)


def test_growing_keeps_old_splits_and_the_old_forest() -> None:
    X, y = digits()
    old = y < 5
    before = grown(X[old], y[old])
    answers = before(X)
    after = before.grown(X[~old], y[~old], 10)
    assert np.array_equal(before(X), answers)
    for tree, larger in zip(before.trees, after.trees, strict=True):
        assert len(larger.nodes) > len(tree.nodes)
        for node, same in zip(tree.nodes, larger.nodes, strict=False):
            assert not isinstance(node, MeanSplit) or node is same
    assert np.mean(after(X).argmax(axis=1) == y) > 0.95


def test_new_class_between_others_gets_its_column() -> None:
    X, y = digits(5)
    names = np.array(["ant", "bee", "cat", "dog", "eel"])[y]
    later = np.isin(y, [1, 4])
    model = NCMForest(n_trees=10).fit(X[~later], names[~later]).partial_fit(X[later], names[later])
    assert model.classes_.tolist() == ["ant", "bee", "cat", "dog", "eel"]
    assert np.mean(model.classes_[model.decision_function(X).argmax(axis=1)] == names) > 0.95
    model.partial_fit(X[later], names[later])
    assert np.mean(model.classes_[model.decision_function(X).argmax(axis=1)] == names) > 0.95


def test_digits() -> None:
    X, y = digits()
    known, training = y < 6, np.arange(len(y)) % 2 == 0
    model = NCMForest().fit(X[known & training], y[known & training])
    decision = model.decision_function(X[~training])
    seen = known[~training]
    assert np.mean(model.classes_[decision[seen].argmax(axis=1)] == y[known & ~training]) > 0.95
    assert roc_auc_score(seen, decision.max(axis=1)) > 0.8
    model.partial_fit(X[~known & training], y[~known & training])
    assert np.mean(model.decision_function(X[~training]).argmax(axis=1) == y[~training]) > 0.9


@pytest.mark.parametrize("labels", [[0, 1], [0, 0, 0], [0, 0, 1, 1, 2]])
def test_few_samples_and_classes(labels: list[int]) -> None:
    X = load_digits().data[: len(labels)]
    assert np.isfinite(NCMForest(threshold=0.1).fit(X, labels).decision_function(X)).all()
