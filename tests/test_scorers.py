from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from openworld import EuclideanMetric, NearestNonOutlier, scorers
from openworld.model_selection import LeaveClassesOut

# Two known classes around 0 and 10; tau = 2. Of the test, by hand:
#   known    0.5 right, 1 right, 5 rejected, 10 right (a class "b"), 9 named "b" but of class "a"
#   unknown  30 rejected, 11 accepted as "b"
X_TEST = np.array([[0.5], [1.0], [5.0], [10.0], [9.0], [30.0], [11.0]])
Y_TEST = np.array(["a", "a", "a", "b", "a", "new", "other"])


@pytest.fixture
def model():
    metric = EuclideanMetric(standardize=False)
    return NearestNonOutlier(metric, tau=2.0).fit([[-1.0], [1.0], [9.0], [11.0]], ["a", "a", "b", "b"])


def test_by_hand(model):
    def score(scorer):
        return scorer(model, X_TEST, Y_TEST)

    assert score(scorers.known_accuracy) == pytest.approx(3 / 5)
    assert score(scorers.unknown_rejection) == pytest.approx(1 / 2)
    assert score(scorers.neg_open_world_error) == pytest.approx(-(2 / 5 + 1 / 2))
    assert score(scorers.pooled_accuracy) == pytest.approx(4 / 7)
    assert score(scorers.harmonic_accuracy) == pytest.approx(2 * 0.6 * 0.5 / 1.1)
    # Distances of right known samples 0.5, 1, 5, 0 against 20 and 1: pairs won 2, 1.5, 1, 2 of 5 x 2.
    assert score(scorers.oscr_area) == pytest.approx(6.5 / 10)


def test_inside_pipelines_and_searches(model):
    X = np.concatenate([np.random.default_rng(i).normal(5 * i, 1, (20, 2)) for i in range(4)])
    y = np.repeat(list("abcd"), 20)
    pipeline = make_pipeline(StandardScaler(), NearestNonOutlier(EuclideanMetric()))
    search = GridSearchCV(
        pipeline,
        {"nearestnonoutlier__tau": [0.5, 1.0]},
        cv=LeaveClassesOut(2),
        scoring=scorers.pooled_accuracy,
        error_score="raise",
    ).fit(X, y)
    assert search.best_score_ > 0.6
    assert scorers.known_accuracy(search, X, y) > 0.6
    assert scorers.known_accuracy(search.best_estimator_, X, y) == scorers.known_accuracy(search, X, y)


def test_every_scorer_is_listed():
    functions = {name for name, value in vars(scorers).items() if callable(value) and name[0] != "_"}
    assert functions - {"Decisions", "Scores", "Any", "ArrayLike"} == set(scorers.__all__)
