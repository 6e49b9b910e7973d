"""What can be wrong with labeled data is found, and nothing else."""

from __future__ import annotations

import numpy as np

from openworld.evaluation.data_check import check_data, parts_among


def data() -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(0).standard_normal((60, 4)), np.repeat(["a", "b", "c"], 20)


def test_sound_data_pass() -> None:
    found = check_data(*data())
    assert not any(vars(found).values())


def test_copies_in_two_classes() -> None:
    X, y = data()
    X[25] = X[3]
    X[45] = X[7] + 1e-4
    X[8] = X[9]  # copies within a class are no contradiction
    found = check_data(X, y)
    assert found.copies == [(3, 25)]
    assert found.near_copies == [(7, 45)]


def test_few_samples_and_useless_features() -> None:
    X, y = data()
    y = np.array(["rare"] * 3 + ["alone"] + y[4:].tolist())
    X[:, 1] = 7
    X[:, 2] *= 1e6
    found = check_data(X, y)
    assert found.few == [("alone", 1), ("rare", 3)]
    assert found.constant == [1]
    assert found.dominating == [2]


def test_parts_of_a_data_set_are_not_classes() -> None:
    assert parts_among(["Train", "test"]) == ["Train", "test"]
    assert parts_among(["train", "val", "test"]) == ["train", "val", "test"]
    assert parts_among(["train", "bus", "tram"]) == []  # a train may be a train


def test_a_time_or_number_of_the_sample_is_found() -> None:
    random = np.random.default_rng(0)
    X = random.integers(0, 1000, (40, 4)).astype(float)
    X[:, 1] = 1.7e9 + np.cumsum(random.integers(1, 100, 40))
    X[:, 2] = -np.arange(40)
    X[:, 3] = np.sort(random.random(40))  # measured values in order are no numbers of samples
    y = np.repeat(["a", "b"], 20)
    assert check_data(X, y).counting == [1, 2]
    assert check_data(X[:5], y[:5]).counting == []


def test_copies_within_a_class() -> None:
    X, y = data()
    X[5:8] = X[4]
    X[24] = X[23]
    assert check_data(X, y).copies_within == 6 / 60
    assert check_data(X, y).copies == []
    groups = np.full(60, "")
    groups[4:8] = "burst"
    assert check_data(X, y, groups=groups).copies_within == 2 / 60  # those that are of no group
    groups[4] = "other"
    assert check_data(X, y, groups=groups).copies_within == 6 / 60
