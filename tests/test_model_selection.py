from __future__ import annotations

import doctest

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from openworld import EuclideanMetric, NearestNonOutlier, model_selection, scorers
from openworld.model_selection import LeaveClassesOut

Y = np.repeat(["a", "b", "c", "d", "e", "f"], [8, 8, 8, 8, 1, 4])


def test_unknown_classes_are_never_trained_on():
    unknown = []
    for train, test in LeaveClassesOut(7, unknown_fraction=0.5, random_state=1).split(None, Y):
        assert not set(train) & set(test)
        left_out = set(Y) - set(Y[train])
        assert len(left_out) == 3
        assert left_out <= set(Y[test])
        unknown.append(frozenset(left_out))
        for label, n in (("a", 2), ("b", 2), ("f", 1)):
            assert np.sum(Y[test] == label) == n
            assert np.sum(Y[train] == label) == (0 if label in left_out else np.sum(label == Y) - n)
        # The only sample of a class is tested where the class is unknown, and learned where it is known.
        assert ("e" in Y[test]) == ("e" in left_out)
    assert len(set(unknown)) > 2
    assert LeaveClassesOut(7).get_n_splits() == 7


def test_the_seed_decides():
    def folds(seed):
        return [test.tolist() for _, test in LeaveClassesOut(3, random_state=seed).split(None, Y)]

    assert folds(0) == folds(0)
    assert folds(0) != folds(1)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"n_splits": 0}, "n_splits"),
        ({"unknown_fraction": 1.0}, "unknown_fraction"),
        ({"test_fraction": 0}, "test"),
    ],
)
def test_wrong_parameters_are_refused(wrong, match):
    with pytest.raises(ValueError, match=match):
        next(LeaveClassesOut(**wrong).split(None, Y))
    with pytest.raises(ValueError, match="at least 3 classes; got 2"):
        next(LeaveClassesOut().split(None, ["a", "b"]))


def test_a_search_that_sees_unknown_classes_rejects_more():
    random = np.random.default_rng(0)
    means = 6 * random.standard_normal((9, 3))
    y = np.repeat(np.arange(9), 30)
    X = means[y] + random.standard_normal((270, 3))
    model = NearestNonOutlier(EuclideanMetric(standardize=False), tau=1.0)
    taus = {"tau": [1.5, 3.5, 50.0]}
    usual = GridSearchCV(model, taus, cv=3).fit(X, y)
    open_world = GridSearchCV(
        model, taus, cv=LeaveClassesOut(3), scoring=scorers.neg_open_world_error, error_score="raise"
    ).fit(X, y)
    assert usual.best_params_ == {"tau": 50.0}
    assert open_world.best_params_ == {"tau": 3.5}


def test_examples_in_docstrings():
    result = doctest.testmod(model_selection)
    assert result.attempted
    assert not result.failed
