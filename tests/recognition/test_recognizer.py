"""The protocol: what every recognizer has, and what its judgement says."""

import inspect

import numpy as np
import pytest
from sklearn.datasets import load_iris

from openworld import (
    AdjustableRecognizer,
    EditableRecognizer,
    EuclideanMetric,
    Judgement,
    NearestClassMean,
    NearestNonOutlier,
    OpenWorldRecognizer,
    Recognizer,
    SoftmaxThreshold,
)
from openworld.baselines.linear_svm import LinearSVM
from openworld.recognition import is_adjustable

X, Y = load_iris(return_X_y=True)
EDITABLE = [
    NearestNonOutlier(EuclideanMetric(), tau=1.5),
    NearestClassMean(EuclideanMetric()),
    SoftmaxThreshold(EuclideanMetric(), tau=0.3),
    OpenWorldRecognizer(n_lifted=0),
]
every_editable = pytest.mark.parametrize("recognizer", EDITABLE, ids=lambda r: type(r).__name__)


def members(protocol):
    names = {name for kind in protocol.__mro__ for name in (*vars(kind), *inspect.get_annotations(kind))}
    own = {"__add__"} if "__add__" in vars(protocol) else set()
    return {name for name in names if not name.startswith("_")} | own


@pytest.mark.parametrize(
    ("recognizer", "protocol"),
    [
        (LinearSVM(), Recognizer),
        *((r, EditableRecognizer) for r in EDITABLE),
        (EDITABLE[-1], AdjustableRecognizer),
    ],
    ids=lambda part: getattr(part, "__name__", type(part).__name__),
)
def test_a_fitted_recognizer_has_every_member_of_the_protocol(recognizer, protocol):
    model = recognizer.fit(X, Y)
    assert {"judge", "refresh", "threshold_", "classes_"} <= members(Recognizer) < members(EditableRecognizer)
    assert [name for name in members(protocol) if not hasattr(model, name)] == []


def test_only_a_recognizer_that_calibrates_itself_can_be_adjusted():
    assert [is_adjustable(recognizer) for recognizer in EDITABLE] == [False, False, False, True]


@every_editable
def test_judge_says_what_the_other_methods_say(recognizer):
    model = recognizer.fit(X, Y)
    judged = model.judge(X, 2)
    labels, distances = model.nearest_classes(X, 2)
    assert len(judged) == len(X)
    np.testing.assert_array_equal(judged.labels, model.predict(X))
    np.testing.assert_array_equal(judged.accepted, judged.labels != -1)
    np.testing.assert_allclose(judged.decision, model.decision_function(X).max(axis=1), rtol=1e-6)
    np.testing.assert_array_equal(judged.nearest, labels)
    np.testing.assert_array_equal(judged.distances, distances)
    named = np.isclose(judged.membership, judged.memberships[:, 0])
    assert named[judged.labels == judged.nearest[:, 0]].all()
    assert judged.threshold == model.threshold_


def test_memberships_of_each_recognizer():
    nno, ncm, softmax, owr = (recognizer.fit(X, Y) for recognizer in EDITABLE)
    np.testing.assert_allclose(
        nno.judge(X, 3).memberships, -np.sort(-np.clip(nno.decision_function(X), 0, 1)), rtol=1e-9
    )
    for model in (ncm, softmax):
        expected = -np.sort(-model.predict_proba(X), axis=1)
        np.testing.assert_allclose(model.judge(X, 3).memberships, expected, rtol=1e-9, atol=1e-12)
    expected = np.take_along_axis(owr.membership(X), owr.judge(X, 3).nearest, axis=1)
    np.testing.assert_allclose(owr.judge(X, 3).memberships, expected)


@every_editable
def test_class_means_lie_in_feature_space(recognizer):
    model = recognizer.fit(X, Y)
    for label in range(3):
        mean = model.class_mean(label)
        assert mean.shape == (4,)
        np.testing.assert_allclose(mean, X[label == Y].mean(axis=0), atol=0.3)
        assert model.nearest_classes(mean[np.newaxis], 1)[0].tolist() == [[label]]
    with pytest.raises(KeyError, match="no class 7"):
        model.class_mean(7)


@every_editable
def test_after_refresh_predicting_changes_nothing_in_the_model(recognizer):
    model = recognizer.fit(X[Y < 2], Y[Y < 2]).partial_fit(X[Y == 2], Y[Y == 2]).refresh()
    samples = X.astype(np.float32)

    def parts(part, depth=0):
        inside = vars(part) if hasattr(part, "__dict__") else {}
        found = {name: id(value) for name, value in inside.items()}
        return found, {n: parts(v, depth + 1) for n, v in inside.items() if depth < 3}

    before = parts(model)
    model.predict(samples)
    model.judge(samples)
    assert parts(model) == before


def test_a_rejected_sample_moves_the_threshold_a_part_of_the_way():
    model = NearestNonOutlier(EuclideanMetric(standardize=False), tau=1.0).fit([[0.0], [9.0]], ["a", "b"])
    model.relax_threshold([[3.0]], ["a"])  # 2 beyond tau
    assert model.tau_ == pytest.approx(1.2)
    model.relax_threshold([[0.5]], ["a"])  # accepted
    assert model.tau_ == pytest.approx(1.2)
    with pytest.raises(ValueError, match="not known classes"):
        model.relax_threshold([[3.0]], ["c"])
    softmax = SoftmaxThreshold(EuclideanMetric(standardize=False), tau=0.1).fit([[0.0], [4.0]], ["a", "b"])
    softmax.relax_threshold([[2.0]], ["a"])
    assert softmax.tau_ == pytest.approx(0.1 + 0.1 * (np.log(2) - 0.1))
    for other in (NearestClassMean(), OpenWorldRecognizer(n_lifted=0)):
        threshold = other.fit(X, Y).threshold_
        other.relax_threshold(X, Y)
        assert other.threshold_ == threshold


@every_editable
def test_judgements_of_batches_join_to_the_judgement_of_all(recognizer):
    model = recognizer.fit(X, Y)
    whole = vars(model.judge(X, 2))
    joined = vars(Judgement.joined([model.judge(X[:40], 2), model.judge(X[40:], 2)]))
    assert all(np.array_equal(whole[name], joined[name]) for name in whole)
    assert len(Judgement.joined([])) == 0
