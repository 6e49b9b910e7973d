"""The self-check finds what is true of data that were made for it."""

from __future__ import annotations

import numpy as np
import pytest

from openworld import EuclideanMetric, NearestNonOutlier, OpenWorldRecognizer
from openworld.evaluation.self_check import MOST_SAMPLES, self_check

Data = tuple[np.ndarray, np.ndarray]


def blobs(n_classes: int, per_class: int, spread: float = 1.0, seed: int = 0) -> Data:
    random = np.random.default_rng(seed)
    y = np.repeat([f"c{i:02}" for i in range(n_classes)], per_class)
    centers = 10 * random.standard_normal((n_classes, 12))
    return centers[np.repeat(np.arange(n_classes), per_class)] + spread * random.standard_normal(
        (len(y), 12)
    ), y


def recognizer() -> OpenWorldRecognizer:
    return OpenWorldRecognizer(n_lifted=0)


def test_classes_that_are_far_apart_are_named_and_rejected() -> None:
    X, y = blobs(8, 15)
    check = self_check(recognizer(), X, y)
    assert check is not None
    assert (check.n_samples, check.n_classes) == (len(X), 8)
    assert check.right + check.missed + check.misnamed == pytest.approx(1)
    assert check.nearest_right == 1
    assert check.right > 0.8
    assert check.rejected is not None
    assert check.rejected > 0.8
    assert check.oscr is not None
    assert check.oscr_interval is not None
    assert check.oscr_interval[0] <= check.oscr <= check.oscr_interval[1]
    assert not check.is_near_chance
    assert check.suspects == []


def test_the_estimate_is_that_of_new_samples() -> None:
    """Held-out shares agree with those on samples and classes that nobody has seen."""
    X, y = blobs(10, 60, spread=9.0)
    seen, new = np.arange(len(y)) % 2 == 0, np.arange(len(y)) % 2 == 1
    unknown = np.isin(y, ["c08", "c09"])
    model = recognizer().fit(X[seen & ~unknown], y[seen & ~unknown])
    check = self_check(recognizer(), X[seen & ~unknown], y[seen & ~unknown])
    assert check is not None
    assert check.right == pytest.approx(
        np.mean(model.predict(X[new & ~unknown]) == y[new & ~unknown]), abs=0.15
    )


def test_confused_classes_and_wrong_labels_are_named() -> None:
    X, y = blobs(6, 20)
    X[y == "c01"] = X[y == "c00"] + 0.3 * np.random.default_rng(1).standard_normal((20, 12))
    swapped = np.flatnonzero(y == "c03")[:1]
    y[swapped] = "c04"
    check = self_check(recognizer(), X, y)
    assert check is not None
    assert {check.confused[0][0], check.confused[0][1]} == {"c00", "c01"}
    assert {label for label, _, _ in check.worst_classes[:3]} & {"c00", "c01"}
    assert (int(swapped[0]), "c04", "c03") in [one[:3] for one in check.suspects]


def test_noise_is_near_chance() -> None:
    random = np.random.default_rng(0)
    check = self_check(recognizer(), random.standard_normal((120, 6)), np.repeat(list("abcd"), 30))
    assert check is not None
    assert check.is_near_chance


def test_few_classes_and_few_samples() -> None:
    X, y = blobs(2, 12)
    check = self_check(recognizer(), X, y)
    assert check is not None
    assert (check.rejected, check.oscr) == (None, None)
    assert self_check(recognizer(), X[[0, 12]], y[[0, 12]]) is None  # one sample of each


def test_many_samples_are_drawn_evenly() -> None:
    X, y = blobs(3, 900)
    check = self_check(NearestNonOutlier(EuclideanMetric()), X, y)
    assert check is not None
    assert check.n_samples == MOST_SAMPLES
    assert check.right > 0.5
