"""Samples that are learned twice are counted."""

from __future__ import annotations

import numpy as np

from openworld import NearestNonOutlier, OpenWorldRecognizer
from openworld.distributed.repeats import Repeats

X = np.random.default_rng(0).standard_normal((30, 4))
Y = np.repeat(list("abc"), 10)
MODEL = OpenWorldRecognizer().fit(X, Y)


def repeats(X: np.ndarray, y: list[str]) -> Repeats:
    return Repeats.of(MODEL, MODEL.without_classes().partial_fit(X, y))


def test_the_same_class_and_another_one() -> None:
    assert repeats(X[:3], ["a"] * 3) == Repeats(learned_before=3, of_two_classes=0)
    assert repeats(X[:3], ["a", "b", "d"]) == Repeats(learned_before=1, of_two_classes=2)
    assert repeats(X[:3] + 1, ["a"] * 3) == Repeats()


def test_one_new_sample_as_two_classes() -> None:
    assert repeats(X[[0, 0]] + 1, ["a", "d"]) == Repeats(learned_before=0, of_two_classes=2)


def test_a_model_without_a_reservoir() -> None:
    model = NearestNonOutlier().fit(X, Y)
    assert Repeats.of(model, model) == Repeats()
