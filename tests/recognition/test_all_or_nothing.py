"""A batch that fails at any inner moment leaves the model bit-identical.

The failure is raised before every call that the package makes in `partial_fit`, one after the other, of
Python functions and of C functions alike, and the model's bytes are compared with those from before.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from copy import deepcopy
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

import openworld
from openworld import (
    AdaptiveMetric,
    EuclideanMetric,
    NearestClassMean,
    NearestNonOutlier,
    OpenWorldRecognizer,
    SoftmaxThreshold,
)
from openworld.index import choice
from openworld.model_file import digest, dumps
from openworld.recognition import class_sums

PACKAGE = str(Path(openworld.__file__).parent)
X, Y = load_iris(return_X_y=True)
STARTING = Y < 2
KNOWN_AND_NEW = np.r_[40:60, 100:130]  # of both starting classes, and of the third class
RECOGNIZERS = [
    NearestNonOutlier(EuclideanMetric(), tau=2.0),
    NearestClassMean(EuclideanMetric()),
    SoftmaxThreshold(EuclideanMetric(), tau=0.5),
    NearestNonOutlier(AdaptiveMetric(), tau=0.5),
    OpenWorldRecognizer(metric=AdaptiveMetric()),
    OpenWorldRecognizer(metric=AdaptiveMetric(standardize=True, n_lifted=8), refresh_growth=0.5),
]


class Interrupted(BaseException):
    """As if a person had pressed Control-C."""


def is_ours(frame: Any) -> bool:
    """Whether a frame is of the package, but for its locks: a lock that is taken must be given back."""
    file = "" if frame is None else frame.f_code.co_filename
    return file.startswith(PACKAGE) and not file.endswith(("locking.py", "blas.py"))


class FailingCall:
    """Raises before the nth call of the package inside a block, but for those that end a `with`."""

    def __init__(self, n: int) -> None:
        self.n, self.count = n, 0

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        called = event == "call" and frame.f_code.co_name != "__exit__" and is_ours(frame.f_back)
        if called or (event == "c_call" and is_ours(frame)):
            self.count += 1
            if self.count == self.n:
                sys.setprofile(None)
                raise Interrupted

    def during(self, action: Any, *arguments: Any) -> bool:
        """Run an action; return whether it was interrupted."""
        sys.setprofile(self)
        try:
            action(*arguments)
        except Interrupted:
            return True
        finally:
            sys.setprofile(None)
        return False


def content(model: Any) -> tuple[str, Any]:
    """The checksum of the model's bytes, and its decisions, by a copy: both may refresh a model."""
    model = deepcopy(model)
    if isinstance(model.metric_, AdaptiveMetric) and isinstance(model, NearestNonOutlier):
        return repr(model.classes_.tolist()), model.decision_function(X).tobytes()  # cannot be saved
    return digest(dumps(model)), model.decision_function(X).tobytes()


def interruptions(action: Any, *arguments: Any, step: int = 1) -> Iterator[int]:
    """Run the action again and again, each time interrupted a little later, until it succeeds."""
    for n in count(1, step):
        if not FailingCall(n).during(action, *arguments):
            assert n > 20
            return
        yield n


@pytest.mark.parametrize("recognizer", RECOGNIZERS, ids=str)
def test_a_batch_that_fails_at_any_moment_changes_nothing(recognizer):
    batch = X[KNOWN_AND_NEW], Y[KNOWN_AND_NEW]
    model = recognizer.fit(X[STARTING], Y[STARTING])
    before, whole = content(model), deepcopy(model).partial_fit(*batch)
    for n in interruptions(model.partial_fit, *batch):
        assert content(model) == before, f"interrupted before call {n}"
    assert content(model) == content(whole) != before


@pytest.mark.parametrize("most_rows", [8, 1000])
def test_where_the_scatter_keeps_rows_apart(most_rows, monkeypatch):
    monkeypatch.setattr(class_sums, "_LARGE", 1)  # as with many features
    monkeypatch.setattr(class_sums, "_MOST_ROWS", most_rows)
    model = OpenWorldRecognizer(metric=AdaptiveMetric()).fit(X[STARTING], Y[STARTING])
    before = content(model)
    for n in interruptions(model.partial_fit, X[KNOWN_AND_NEW], Y[KNOWN_AND_NEW]):
        assert content(model) == before, f"interrupted before call {n}"


@pytest.mark.parametrize("recognizer", RECOGNIZERS, ids=str)
def test_the_first_batch_of_a_model_without_classes(recognizer):
    model = recognizer.fit(X[STARTING], Y[STARTING]).without_classes()
    whole = deepcopy(model).partial_fit(X, Y)
    for _ in interruptions(model.partial_fit, X, Y):
        assert len(model.statistics_) == 0
    assert content(model) == content(whole)


@pytest.mark.parametrize("recognizer", RECOGNIZERS, ids=str)
def test_a_fit_that_fails_at_any_moment_keeps_the_model(recognizer):
    model = recognizer.fit(X[STARTING], Y[STARTING])
    before = content(model)
    for n in interruptions(model.fit, X, Y, step=41):
        assert content(model) == before, f"interrupted before call {n}"


def test_an_approximate_index(monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.setattr(choice, "APPROXIMATE_FROM", 100)
    random = np.random.default_rng(0)
    means = random.normal(size=(400, 6))
    model = NearestNonOutlier(EuclideanMetric(standardize=False), tau=1.0).fit(means, np.arange(400))
    batch, labels = random.normal(size=(12, 6)), np.r_[np.arange(6), np.arange(1000, 1006)]
    asked = random.normal(size=(50, 6))
    before = model.nearest_classes(asked, 3)
    for _ in interruptions(model.partial_fit, batch, labels):
        assert len(model.statistics_) == 400
        for found, expected in zip(model.nearest_classes(asked, 3), before, strict=True):
            np.testing.assert_array_equal(found, expected)
    exact = NearestNonOutlier(EuclideanMetric(standardize=False), tau=1.0, index="exact")
    exact.fit(means, np.arange(400)).partial_fit(batch, labels)
    np.testing.assert_array_equal(model.nearest_classes(batch)[0], exact.nearest_classes(batch)[0])
