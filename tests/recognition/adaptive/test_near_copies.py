"""Near copies, found by their distances: bursts made here, and real letters, which have none."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from openworld import OpenWorldRecognizer
from openworld.data.letters import load_letters
from openworld.features import HOG
from openworld.recognition import near_copies, usual_distance

N_FEATURES = 60


def bursts(n_classes=8, n_groups=5, n_copies=6, seed=0, first=0, noise=0.2):
    """Directions that vary within a class, each with near copies."""
    random = np.random.default_rng(seed)
    centers = 2 * np.random.default_rng(99).normal(size=(100, N_FEATURES))
    codes = np.repeat(np.arange(first, first + n_classes), n_groups)
    middles = centers[codes] + random.normal(size=(len(codes), N_FEATURES))
    groups, y = np.repeat(np.arange(len(codes)), n_copies), np.repeat(codes, n_copies)
    return middles[groups] + noise * random.normal(size=(len(groups), N_FEATURES)), y, groups


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("n_groups", "n_copies"), [(5, 6), (2, 10), (8, 2)])
def test_bursts_are_found(n_groups, n_copies, seed):
    X, y, groups = bursts(n_groups=n_groups, n_copies=n_copies, seed=seed)
    assert adjusted_rand_score(near_copies(X, y), groups) == 1


def test_samples_without_near_copies_are_left_alone():
    X, y, groups = bursts(n_copies=4)
    alone = np.arange(len(X)) % 4 > 0
    kept = ~alone | (y < 4)
    found = near_copies(X[kept], y[kept])
    np.testing.assert_array_equal(found == "", y[kept] >= 4)
    assert adjusted_rand_score(found[y[kept] < 4], groups[kept][y[kept] < 4]) == 1


def test_few_near_copies_are_a_coincidence():
    X, y, _ = bursts(n_groups=20, n_copies=1)
    assert near_copies(X, y) is None
    twice = np.r_[np.arange(len(X)), np.arange(10)]
    assert near_copies(X[twice], y[twice]) is None


def test_different_letters_of_a_kind_are_no_copies():
    letters = load_letters()
    some = np.isin(letters.labels, np.unique(letters.labels)[:40])
    X = np.stack([HOG(cell=4).descriptors(image).ravel() for image in letters.images[some]])
    assert near_copies(X, letters.labels[some]) is None


def test_a_class_of_one_burst_is_found_by_the_distance_in_other_classes():
    X, y, _ = bursts(n_classes=1, n_groups=1, n_copies=10)
    others, labels, _ = bursts(first=20, n_groups=10, n_copies=1)
    assert near_copies(X, y) is None  # nothing tells that its samples are alike
    found = near_copies(X, y, usual_distance(others, labels))
    assert len(set(found)) == 1
    assert found[0]


@pytest.mark.parametrize("at_once", [1, 1000, 10**7])
def test_a_class_is_compared_in_pieces(monkeypatch, at_once):
    X, y, groups = bursts(n_groups=3, n_copies=30)
    order = np.random.default_rng(0).permutation(len(X))
    module = sys.modules["openworld.recognition.adaptive.near_copies"]
    monkeypatch.setattr(module, "_PAIRS_AT_ONCE", at_once)
    assert adjusted_rand_score(near_copies(X[order], y[order]), groups[order]) == 1
    chain = np.deg2rad(np.arange(0, 90, 3))[::-1]  # each near the next one, and so all together
    X, y = np.c_[np.cos(chain), np.sin(chain)], np.zeros(len(chain))
    assert len(set(near_copies(X, y, distance=0.2))) == 1


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 99), scale=st.floats(0.01, 100))
def test_neither_order_nor_length_matters(seed, scale):
    X, y, _ = bursts(n_classes=4, seed=seed)
    order = np.random.default_rng(seed).permutation(len(X))
    distance = usual_distance(X, y)
    found = near_copies(X, y, distance)
    np.testing.assert_array_equal(near_copies(X[order], y[order], distance), found[order])
    np.testing.assert_array_equal(near_copies(np.asfortranarray(X), y, distance), found)
    assert adjusted_rand_score(near_copies(scale * X, y, distance), found) == 1


def test_groups_of_other_classes_and_of_other_calls_are_other_groups():
    X, _, _ = bursts(n_classes=1)
    labels = np.repeat([0, 1], [15, 15])
    found = near_copies(X, labels, usual_distance(*bursts()[:2]))
    assert not set(found[labels == 0]) & set(found[labels == 1])
    later = near_copies(*bursts(seed=7)[:2])
    assert not set(found) & set(later)


def test_the_usual_distance_is_a_median_of_medians():
    angles = np.deg2rad([0, 10, 0, 20, 0, 90])
    X, y = np.c_[np.cos(angles), np.sin(angles)], np.repeat([0, 1, 2], 2)
    assert usual_distance(X, y) == pytest.approx(2 * np.sin(np.deg2rad(10)))
    assert usual_distance(X[:1], y[:1]) == 0
    assert usual_distance([], []) == 0
    assert near_copies(X[:1], y[:1]) is None


def test_the_recognizer_profits():
    X, y, _ = bursts(seed=1)
    test, truth, _ = bursts(n_groups=30, n_copies=1, seed=50)
    known = [
        np.mean(OpenWorldRecognizer().fit(X, y, groups=groups).predict(test) == truth)
        for groups in (None, near_copies(X, y))
    ]
    assert known[1] > known[0] + 0.2
