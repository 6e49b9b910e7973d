"""The recommended recognizer: what it promises beyond the contract that every recognizer keeps."""

import pickle
from copy import deepcopy
from dataclasses import replace
from threading import Barrier, Thread

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError

from openworld import (
    F1,
    AdaptiveMetric,
    FalseAcceptRate,
    KnownRecall,
    MinOpenWorldError,
    NearestNonOutlier,
    OpenWorldRecognizer,
    load,
    save,
)
from openworld.evaluation.decisions import Decisions
from openworld.evaluation.measures import open_world_error
from openworld.recognition.adaptive.choice import candidate_metrics
from openworld.recognition.adaptive.memory import Derived
from openworld.recognition.adaptive.metric import LARGEST_SCATTER, Whitening
from openworld.recognition.adaptive.score import ScoreCalibration
from openworld.recognition.adaptive.scoring import make_scoring_model

X, Y = load_iris(return_X_y=True)
NEW = X + np.random.default_rng(0).normal(scale=0.3, size=X.shape)
DIGITS, DIGIT = load_digits(return_X_y=True)
_ORDER = np.random.default_rng(0).permutation(len(DIGIT))
TRAIN, TEST = _ORDER[:900], _ORDER[900:]
FORMS = [{"standardize": s, "n_lifted": n} for s in (False, True) for n in (0, 12)]
EVERY_FORM = pytest.mark.parametrize("form", FORMS, ids=["plain", "lifted", "standardized", "both"])


def fitted(form=None, samples=X, labels=Y, **parameters):
    """With the representation of `form`, whatever the calibration would choose."""
    if form is None:
        return OpenWorldRecognizer(**{"n_lifted": 0, **parameters}).fit(samples, labels)
    return OpenWorldRecognizer(metric=AdaptiveMetric(**form), **parameters).fit(samples, labels)


def scored_by(model, calibration):
    """Set another calibration, and return the scoring model it makes."""
    memory = model.memory_
    scoring = make_scoring_model(model.metric_, memory.lengths, memory.reservoir, calibration)
    model._derived = Derived(scoring, calibration, float(model.statistics_.counts.sum()))
    return scoring


def digits_of(rows, classes):
    rows = rows[np.isin(DIGIT[rows], classes)]
    return DIGITS[rows], DIGIT[rows]


@pytest.fixture(scope="module")
def digits_model():
    """Knows 0 to 6, of which 4 to 6 were learned later."""
    model = OpenWorldRecognizer(n_lifted=200).fit(*digits_of(TRAIN, range(4)))
    return model.partial_fit(*digits_of(TRAIN, range(4, 7)))


def state(model):
    """All that a failed call must leave alone."""
    lengths = model.memory_.lengths
    kept = {label: sorted(samples) for label, samples in model.reservoir_._kept.items()}
    return {
        "classes": model.classes_.tolist(),
        "labels": model.statistics_.labels,
        "counts": model.statistics_.counts.tolist(),
        "sums": model.statistics_.sums.tolist(),
        "scatter": model.statistics_.scatter.tolist(),
        "lengths": [lengths.labels, lengths.sums.tolist(), lengths.scatter.tolist()],
        "reservoir": kept,
        "calibration": model.calibration_,
        "decision": model.decision_function(X).tolist(),
        "answers": model.predict(X).tolist(),
        "attributes": sorted(vars(model)),
    }


# --- Bounded ---


@EVERY_FORM
@settings(max_examples=25)
@given(
    direction=st.lists(st.floats(-1, 1), min_size=4, max_size=4).filter(lambda d: np.linalg.norm(d) > 1e-3),
    decades=st.floats(0, 12),
)
def test_far_out_in_any_direction_is_unknown(form, direction, decades):
    model = BOUNDED[form["standardize"], form["n_lifted"]]
    # From twice the largest radius on, out to 1e12 times that.
    distance = 2.001 * model._current().radii.max() * 10**decades
    samples = distance * np.array([direction]) / np.linalg.norm(direction)
    assert model.predict(samples).tolist() == [-1]
    assert np.all(model.decision_function(samples) < 0)
    assert np.all(model.membership(samples) == 0)


BOUNDED = {(form["standardize"], form["n_lifted"]): fitted(form) for form in FORMS}


@EVERY_FORM
def test_far_out_along_the_classes_is_unknown(form):
    """Where the angle says nothing against it: along the samples and along the class means."""
    model = BOUNDED[form["standardize"], form["n_lifted"]]
    means = np.array([X[label == Y].mean(axis=0) for label in range(3)])
    for rays in (X, means, X[Y == 1] - X[Y == 0].mean(axis=0), X - X.mean(axis=0)):
        rays = rays / np.linalg.norm(rays, axis=1, keepdims=True)
        radius = 2.001 * model._current().radii.max()
        for distance in [*radius * np.logspace(0, 3, 20), 1e6, 1e9, 1e12, 1e30, 1e150, 1e300]:
            assert set(model.predict(distance * rays).tolist()) == {-1}, distance
            assert np.all(model.membership(distance * rays) == 0)
        for dtype in (np.float32, np.int64):
            assert set(model.predict((1e6 * rays).astype(dtype)).tolist()) == {-1}


def test_the_radii_leave_the_classes_alone():
    """Twice the length that nearly none of a class's samples exceeds: no sample is rejected for it."""
    model = fitted()
    lengths = np.linalg.norm(X, axis=1)
    for label, radius in zip(model.classes_, model._current().radii, strict=True):
        assert radius > 1.5 * lengths[label == Y].max()
        assert radius < 4 * lengths[label == Y].max()


def test_membership_falls_to_nothing_along_rays():
    model = fitted({"standardize": False, "n_lifted": 12})
    along = np.array([model.membership(t * X).max(axis=1) for t in (1, 1.5, 3, 5, 8, 20)])
    assert np.all(np.diff(along, axis=0) <= 1e-6)  # the direction is the same, only the radius grows
    assert np.all(along[-1] == 0)


# --- Membership ---


@EVERY_FORM
def test_membership_lies_between_0_and_1(form):
    model = BOUNDED[form["standardize"], form["n_lifted"]]
    random = np.random.default_rng(0)
    for samples in (X, 10 * random.normal(size=(200, 4)), np.zeros((1, 4))):
        membership = model.membership(samples)
        assert membership.shape == (len(samples), 3)
        assert np.all((membership >= 0) & (membership <= 1))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_few_classes_of_few_samples_in_many_dimensions_are_separated_from_unknown_ones(n_classes):
    random = np.random.default_rng(0)
    centers = 0.6 * random.normal(size=(n_classes + 4, 200))
    classes = np.repeat(np.arange(len(centers)), 50)
    X = centers[classes] + random.normal(size=(len(classes), 200))
    learned = np.flatnonzero((np.arange(len(classes)) % 50 < 5) & (classes < n_classes))
    model = OpenWorldRecognizer().fit(X[learned], classes[learned])
    known = np.setdiff1d(np.flatnonzero(classes < n_classes), learned)
    assert np.mean(model.predict(X[known]) == classes[known]) > 0.8
    assert np.mean(model.predict(X[classes >= n_classes]) == -1) > 0.9


def test_membership_is_not_normalized(digits_model):
    known, unknown = (
        digits_model.membership(digits_of(TEST, c)[0]).sum(axis=1) for c in (range(7), [7, 8, 9])
    )
    assert np.mean(known) > 0.8
    assert np.mean(unknown) < 0.35
    assert known.max() > 1.001 or known.min() < 0.5


def test_membership_agrees_with_the_order_of_the_decisions(digits_model):
    samples = DIGITS[TEST[:200]]
    membership, decision = digits_model.membership(samples), digits_model.decision_function(samples)
    within = np.linalg.norm(samples, axis=1) < digits_model._current().radii.min()
    assert within.all()
    assert np.array_equal(membership.argmax(axis=1), decision.argmax(axis=1))


def test_membership_is_calibrated(digits_model):
    """Expected calibration error, known and unknown in equal numbers as in calibration, below 0.1."""
    (known, labels), (unknown, _) = digits_of(TEST, range(7)), digits_of(TEST, [7, 8, 9])
    samples, n = np.vstack([known[: len(unknown)], unknown]), len(unknown)
    membership = digits_model.membership(samples)
    confidence = membership.max(axis=1)
    right = np.r_[digits_model.classes_[membership.argmax(axis=1)][:n] == labels[:n], np.zeros(n, dtype=bool)]
    bins = np.minimum((confidence * 10).astype(int), 9)
    error = sum(
        np.mean(bins == b) * abs(confidence[bins == b].mean() - right[bins == b].mean()) for b in set(bins)
    )
    assert error < 0.1
    assert np.mean(right) - 0.1 < confidence.mean() < np.mean(right) + 0.1


# --- Decisions ---


@EVERY_FORM
def test_predict_is_the_largest_decision_if_positive(form):
    model = BOUNDED[form["standardize"], form["n_lifted"]]
    samples = np.vstack([NEW, 30 * np.random.default_rng(0).normal(size=(200, 4))])
    decision = model.decision_function(samples)
    expected = np.where(decision.max(axis=1) > 0, model.classes_[decision.argmax(axis=1)], -1)
    assert decision.dtype == np.float64
    np.testing.assert_array_equal(model.predict(samples), expected)
    assert len(set(expected.tolist())) == 4


@EVERY_FORM
@pytest.mark.parametrize("by_distance", [False, True])
def test_decision_by_hand(form, by_distance):
    """``exp(s - runner_up s' - strictness p - threshold) b - 1``, with s by cosine or distance, less p.

    A cosine counts more for few samples, and the more so for the class with the largest score.
    """
    given = ScoreCalibration(
        by_distance, 0.5, 0.25, 3.0, 0.4, threshold=-0.3, slope=2.0, intercept=0.1, strictness=0.7
    )
    model = fitted(form, samples=X[:120], labels=Y[:120])
    whitening, counts = model.metric_.whitening_, np.array([50, 50, 20])
    white = whitening(model.metric_.representation_(X[:120]))
    means = np.array([white[Y[:120] == c].mean(axis=0) for c in range(3)])
    scoring = scored_by(model, given)
    samples = np.vstack([NEW, 3 * NEW[:20], 9 * NEW[:20]])
    white = whitening(model.metric_.representation_(samples))
    distances = np.linalg.norm(white[:, np.newaxis] - means, axis=2)
    factors = np.ones(3)
    if by_distance:
        similarities = -distances * np.sqrt(counts / (counts + 1) / white.shape[1])
    else:
        products = white @ means.T / np.linalg.norm(white, axis=1, keepdims=True)
        factors = (1 + 3.0 / counts) ** (1 / (1 + 3.0 / 6) / 4)
        similarities = products / np.linalg.norm(means, axis=1) * factors
    scores = similarities - scoring.penalties
    others = np.array([np.delete(scores, c, axis=1).max(axis=1) for c in range(3)]).T
    best = scores.argmax(axis=1)
    compared = scores - 0.25 * others - 0.7 * scoring.penalties[best][:, np.newaxis]
    rows = np.arange(len(samples))
    compared[rows, best] += np.maximum(similarities[rows, best], 0) * (factors[best] - 1)
    sizes = np.linalg.norm(X[:120], axis=1)
    deviations = np.array([sizes[Y[:120] == c].std(ddof=1) for c in range(3)])
    radii = np.array([sizes[Y[:120] == c].mean() for c in range(3)])
    radii = 2 * (radii + 4 * np.maximum(deviations, np.median(deviations)))
    radial = np.clip(2 - np.linalg.norm(samples, axis=1)[:, np.newaxis] / radii, 0, 1)
    assert set(np.sign(radial).ravel()) == {0, 1}
    found = model.decision_function(samples)
    np.testing.assert_allclose(found, np.exp(compared + 0.3) * radial - 1, rtol=2e-3, atol=2e-3)
    probability = 1 / (1 + np.exp(-2 * compared - 0.1))
    np.testing.assert_allclose(model.membership(samples), probability * radial, atol=2e-3)


def test_a_sample_from_afar_does_not_change_the_decision_on_the_others():
    """Not even in the last bit."""
    model = fitted({"standardize": True, "n_lifted": 12})
    alone, beside = NEW.copy(), NEW.copy()
    beside[-1] = 1e6
    found = model.decision_function(beside)[:-1]
    np.testing.assert_array_equal(found, model.decision_function(alone)[:-1])


def test_more_samples_than_are_scored_at_once(monkeypatch):
    model = fitted()
    at_once = model.decision_function(NEW)
    monkeypatch.setattr("openworld.recognition.adaptive.scoring._CHUNK_ROWS", 7)
    np.testing.assert_allclose(model.decision_function(NEW), at_once, atol=1e-6)
    assert model.nearest_classes(NEW)[0].shape == (150, 3)
    assert model.membership(NEW).shape == (150, 3)


def test_nearest_classes():
    model = fitted()
    samples = np.vstack([NEW, 2.5 * NEW, 5 * NEW, 100 * NEW])  # within, between and beyond the radii
    for n, expected in ((1, 1), (2, 2), (5, 3)):
        labels, distances = model.nearest_classes(samples, n)
        assert labels.shape == distances.shape == (600, expected)
        assert np.all(np.diff(distances, axis=1) >= 0)
    accepted = model.predict(NEW) >= 0
    assert np.array_equal(labels[:150, 0][accepted], model.predict(NEW)[accepted])
    assert np.all(distances >= -0.01)


def test_the_metric_is_that_of_all_classes():
    """`metric_` can be used by itself, and follows as classes come."""
    model = fitted({"standardize": True, "n_lifted": 12}, X[:100], Y[:100])
    before = model.metric_.transform(NEW)
    model.partial_fit(X[100:], Y[100:]).predict(NEW[:1])
    after = model.metric_.transform(NEW)
    assert np.abs(after - before).max() > 0.01
    whitening = Whitening.of(model.statistics_)
    expected = whitening(model.metric_.representation_(NEW))
    np.testing.assert_allclose(after, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-5)


# --- Choosing the representation ---


def test_classes_that_differ_in_length_alone_are_standardized():
    """Without, only the direction would be left, which is the same for all."""
    random = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2, 3], 40)
    samples = 3.0 ** labels[:, np.newaxis] * (1 + 0.03 * random.normal(size=(160, 5)))
    model = fitted(samples=samples, labels=labels)
    assert model.metric_.standardize
    assert np.mean(model.predict(samples) == labels) > 0.8


def test_more_features_than_a_scatter_is_kept_of():
    random = np.random.default_rng(0)
    labels = np.arange(60) % 3
    centers = random.normal(size=(4, LARGEST_SCATTER + 5)).astype(np.float32)
    samples = centers[labels] + 0.7 * random.normal(size=(60, LARGEST_SCATTER + 5)).astype(np.float32)
    model = OpenWorldRecognizer(n_lifted=40).fit(samples[:40], labels[:40])
    assert model.metric_.representation_.n_dimensions == 40
    assert np.mean(model.predict(samples[40:]) == labels[40:]) > 0.8
    assert np.mean(model.predict(centers[3:] + samples[:20] - centers[labels[:20]]) == -1) > 0.8
    model.partial_fit(centers[3:] + samples[:5] - centers[labels[:5]], [3] * 5)
    assert model.predict(centers[3:]).tolist() == [3]


# --- Learning ---


@EVERY_FORM
@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), n_pieces=st.integers(2, 9))
def test_any_pieces_in_any_order(form, seed, n_pieces):
    start, rest = np.arange(0, 150, 3), np.setdiff1d(np.arange(150), np.arange(0, 150, 3))
    labels = np.where(np.arange(150) % 5 == 0, Y + 10, Y)  # the rest brings new classes too
    labels[start] = Y[start]
    together = fitted(form, X[start], labels[start]).partial_fit(X[rest], labels[rest])
    random = np.random.default_rng(seed)
    model = fitted(form, X[start], labels[start])
    for piece in np.array_split(random.permutation(rest), n_pieces):
        model.partial_fit(X[piece], labels[piece])
        if random.random() < 0.3:
            model.predict(X[:1])  # asking in between makes no difference
    np.testing.assert_allclose(
        model.decision_function(NEW), together.decision_function(NEW), rtol=1e-4, atol=1e-6
    )
    np.testing.assert_array_equal(model.predict(NEW), together.predict(NEW))


def test_one_class_at_a_time_is_all_at_once():
    start = OpenWorldRecognizer(n_lifted=60).fit(*digits_of(TRAIN, range(4)))
    together = deepcopy(start).partial_fit(*digits_of(TRAIN, range(4, 10)))
    for order in ([9, 5, 7, 4, 8, 6], [4, 5, 6, 7, 8, 9]):
        model = deepcopy(start)
        for label in order:
            model.partial_fit(*digits_of(TRAIN, [label]))
        samples = DIGITS[TEST]
        np.testing.assert_allclose(
            model.decision_function(samples), together.decision_function(samples), rtol=1e-4, atol=1e-6
        )
        np.testing.assert_array_equal(model.predict(samples), together.predict(samples))
        assert model.calibration_.threshold == pytest.approx(together.calibration_.threshold, abs=1e-6)


def test_a_class_forgotten_and_learned_again():
    """Its share of the scatter stays behind, so the metric is not the same to the last digit."""
    model = OpenWorldRecognizer(n_lifted=0).fit(*digits_of(TRAIN, range(8)))
    samples, labels = digits_of(TEST, range(8))
    before = model.predict(samples)
    model.forget_class(7)
    assert model.classes_.tolist() == list(range(7))
    assert 7 not in model.memory_.lengths
    assert len(model.reservoir_.samples(np.array([7]), 100)[0]) == 0
    assert np.mean(model.predict(samples[labels == 7]) == -1) > 0.8
    assert np.mean(model.predict(samples[labels < 7]) == before[labels < 7]) > 0.95
    model.partial_fit(*digits_of(TRAIN, [7]))
    assert model.statistics_.count(7) == np.sum(DIGIT[TRAIN] == 7)
    assert np.mean(model.predict(samples) == before) > 0.95


def test_unknown_becomes_known():
    model = OpenWorldRecognizer(n_lifted=500).fit(*digits_of(TRAIN, range(6)))
    samples, _ = digits_of(TEST, [7])
    assert np.mean(model.predict(samples) == -1) > 0.8
    train, labels = digits_of(TRAIN, [7])
    model.partial_fit(train[:40], labels[:40])
    assert np.mean(model.predict(samples) == 7) > 0.8


@pytest.mark.parametrize("n_lifted", [0, 200])
def test_it_beats_the_nearest_non_outlier_by_far(n_lifted):
    """Open-world error (Eq. 9) on digits: 4 starting classes, 3 learned later, 3 unknown."""
    errors = {}
    for name, model in (("NNO", NearestNonOutlier()), ("ours", OpenWorldRecognizer(n_lifted=n_lifted))):
        errors[name] = []
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(10)
            learner = clone(model).fit(*digits_of(TRAIN, order[:4]))
            learner.partial_fit(*digits_of(TRAIN, order[4:7]))
            answers = learner.predict(DIGITS[TEST])
            decisions = Decisions.of(DIGIT[TEST], answers, learner.classes_, learner.unknown_label_)
            errors[name].append(open_world_error(decisions))
    assert np.all(np.array(errors["ours"]) < np.array(errors["NNO"]) - 0.3)
    assert np.mean(errors["ours"]) < (0.3 if n_lifted == 0 else 0.2)


def test_no_more_memory_for_more_samples():
    random = np.random.default_rng(0)
    model = fitted(samples=random.normal(size=(3000, 4)) + 5, labels=np.arange(3000) % 3)
    before = len(pickle.dumps(model))
    model.partial_fit(random.normal(size=(20_000, 4)) + 5, np.arange(20_000) % 3)
    model.predict(X)
    assert len(pickle.dumps(model)) < 1.02 * before


def test_copies_and_pickles_are_the_same_model(digits_model):
    samples = DIGITS[TEST[:100]]
    expected = digits_model.decision_function(samples)
    for copy in (deepcopy(digits_model), pickle.loads(pickle.dumps(digits_model))):  # noqa: S301 -- our own
        np.testing.assert_array_equal(copy.decision_function(samples), expected)
        copy.partial_fit(*digits_of(TRAIN, [9]))
        assert len(copy.classes_) == 8
    assert len(digits_model.classes_) == 7
    np.testing.assert_array_equal(digits_model.decision_function(samples), expected)


# --- Spreading the cost of refreshing ---


def test_new_classes_are_known_at_once_and_the_metric_waits():
    start, labels = X[:100], Y[:100]
    model = fitted({"standardize": True, "n_lifted": 12}, start, labels, refresh_growth=0.5)
    before, whitening = model.calibration_, model.metric_.whitening_
    model.partial_fit(X[100:130], Y[100:130])  # 30 % more
    assert 2 in model.classes_
    assert np.mean(model.predict(X[130:]) == 2) > 0.5
    assert model.calibration_ == before
    assert model.metric_.whitening_ is whitening
    every_time = fitted({"standardize": True, "n_lifted": 12}, start, labels).partial_fit(
        X[100:130], Y[100:130]
    )
    assert every_time.calibration_ != before
    model.partial_fit(X[130:], Y[130:])  # 50 % more: not yet
    assert model.calibration_ == before
    model.partial_fit(X[:1], Y[:1])
    assert model.calibration_ != before
    every_time.partial_fit(X[130:], Y[130:]).partial_fit(X[:1], Y[:1])
    np.testing.assert_array_equal(model.decision_function(NEW), every_time.decision_function(NEW))
    assert model.calibration_ == every_time.calibration_


def test_growing_class_by_class_is_making_all_rows_anew(tmp_path):
    """With the metric kept only what changed is made again, and saved in between to the last bit."""
    random = np.random.default_rng(0)
    model = fitted(refresh_growth=100.0)
    for label in (-5, 7, 1, 3, 7, 99):  # new classes before, between and after the others, and known ones
        center = random.normal(size=4)
        model.partial_fit(X[0] + center + 0.1 * random.normal(size=(6, 4)), [label] * 6)
        model.predict(NEW)
        if label == 3:
            before = model.decision_function(NEW)
            model.rename_class(7, -1000)  # from the last place to the first
            assert model.classes_.tolist() == [-1000, -5, 0, 1, 2, 3]
            moved = model.decision_function(NEW)
            np.testing.assert_array_equal(moved, before[:, [5, 0, 1, 2, 3, 4]])
            model.rename_class(-1000, 8)
        save(model, tmp_path / "model.ow")
        loaded = load(tmp_path / "model.ow")
        np.testing.assert_array_equal(loaded.decision_function(NEW), model.decision_function(NEW))
        rebuilt = deepcopy(model)
        rebuilt._derived = replace(rebuilt._derived, model=None)
        np.testing.assert_allclose(rebuilt.decision_function(NEW), model.decision_function(NEW), atol=1e-5)
        np.testing.assert_array_equal(rebuilt.classes_, model.classes_)
    assert model.classes_.tolist() == [-5, 0, 1, 2, 3, 7, 8, 99]


def test_one_pass_returns_what_the_other_methods_return(digits_model):
    samples = np.vstack([digits_of(TEST, range(10))[0][:60], 50 * digits_of(TEST, [3])[0][:5]])
    judged = digits_model.judge(samples, 3)
    decision, rows = digits_model.decision_function(samples), np.arange(65)
    best = decision.argmax(axis=1)
    np.testing.assert_array_equal(judged.labels, digits_model.predict(samples))
    np.testing.assert_array_equal(judged.decision, decision[rows, best])
    np.testing.assert_array_equal(judged.membership, digits_model.membership(samples)[rows, best])
    everything, distances = digits_model.nearest_classes(samples, 99)
    np.testing.assert_array_equal(judged.nearest, everything[:, :3])
    np.testing.assert_array_equal(judged.distances, distances[:, :3])
    columns = np.searchsorted(digits_model.classes_, judged.nearest)
    expected = np.take_along_axis(digits_model.membership(samples), columns, axis=1)
    np.testing.assert_array_equal(judged.memberships, expected)
    assert np.all(judged.memberships[60:] == 0)  # far from all data
    assert np.all(np.diff(distances, axis=1) >= 0)


def test_corrections_leave_the_metric_until_the_samples_have_changed_enough():
    model = fitted(refresh_growth=1.0).partial_fit(NEW[:20] * [1, -1, 1, -1], [7] * 20)
    calibration, whitening = model.calibration_, model.metric_.whitening_
    before = model.decision_function(NEW)
    model.rename_class(7, 8)
    np.testing.assert_array_equal(model.decision_function(NEW), before)
    model.forget_class(0)
    np.testing.assert_allclose(model.decision_function(NEW), before[:, 1:], atol=1e-6)
    assert set(model.judge(NEW).nearest.ravel().tolist()) == {1, 2, 8}
    model.merge_classes([8, 1], 8)
    assert model.classes_.tolist() == [2, 8]
    rebuilt = deepcopy(model)
    rebuilt._derived = replace(rebuilt._derived, model=None, previous=None)
    np.testing.assert_allclose(model.decision_function(NEW), rebuilt.decision_function(NEW), atol=1e-5)
    assert model.calibration_ == calibration
    assert model.metric_.whitening_ is whitening
    model.partial_fit(np.tile(NEW, (2, 1)), np.repeat([3, 4], len(NEW)))
    refreshed = model.calibration_
    assert refreshed != calibration
    model.forget_class(3)
    assert model.calibration_ == refreshed
    model.forget_class(4)  # less than half of the samples are left
    assert model.calibration_ != refreshed


def test_corrections_refresh_where_every_change_does():
    model = fitted().partial_fit(NEW[:20] * [1, -1, 1, -1], [7] * 20)
    for change in (lambda one: one.merge_classes([7, 1], 7), lambda one: one.forget_class(0)):
        before = model.calibration_
        change(model)
        assert model.calibration_ != before


# --- Correcting ---


def test_rename():
    model = fitted(labels=np.array(["a", "b", "c"])[Y])
    before, decision = model.predict(NEW), model.decision_function(NEW)
    model.rename_class("b", "z")
    assert model.classes_.tolist() == ["a", "c", "z"]
    np.testing.assert_array_equal(model.predict(NEW), np.where(before == "b", "z", before))
    np.testing.assert_allclose(model.decision_function(NEW), decision[:, [0, 2, 1]], atol=1e-6)
    model.rename_class("z", "z")
    model.partial_fit(X[:2], ["z", "b"])
    assert model.classes_.tolist() == ["a", "b", "c", "z"]


@EVERY_FORM
@pytest.mark.parametrize("into", [0, 1, 7])
def test_merged_classes_are_as_if_they_had_always_been_one(form, into):
    rest = np.arange(150) % 2 == 1
    parts = np.where(Y == 1, 10, np.where(Y == 2, 11, Y))
    model = fitted(form, X[~rest], Y[~rest]).partial_fit(X[rest], parts[rest])
    model.merge_classes([10, 11], into)
    whole = fitted(form, X[~rest], Y[~rest]).partial_fit(X[rest], np.where(Y > 0, into, Y)[rest])
    assert model.classes_.tolist() == whole.classes_.tolist()
    np.testing.assert_allclose(model.statistics_.scatter, whole.statistics_.scatter, atol=1e-6)
    np.testing.assert_allclose(model.decision_function(NEW), whole.decision_function(NEW), atol=1e-4)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda m: m.forget_class("z"), KeyError, "no class 'z'"),
        (lambda m: m.forget_class(0), KeyError, "no class 0"),
        (lambda m: m.rename_class("z", "y"), KeyError, "no class 'z'"),
        (lambda m: m.rename_class("a", "b"), ValueError, "Merge the two classes instead"),
        (lambda m: m.rename_class("a", "unknown"), ValueError, "means unknown"),
        (lambda m: m.rename_class("a", 5), TypeError, "string"),
        (lambda m: m.rename_class("a", None), TypeError, "label"),
        (lambda m: m.merge_classes(["a", "z"], "a"), KeyError, "no class 'z'"),
        (lambda m: m.merge_classes([], "a"), ValueError, "at least one class"),
        (lambda m: m.merge_classes(["a", "b"], "unknown"), ValueError, "means unknown"),
        (lambda m: m.merge_classes(["a", "b"], 1), TypeError, "string"),
        (lambda m: m.partial_fit(X, Y), TypeError, "string"),
        (lambda m: m.partial_fit(np.full((1, 4), 1e39), ["a"]), ValueError, "Check X for wrong values"),
        (lambda m: m.partial_fit(np.full((1, 4), -1e200), ["d"]), ValueError, "Check X for wrong values"),
        (lambda m: m.partial_fit(X[:2], ["a", "d"], classes=["a", "b"]), ValueError, "not in `classes`"),
        (lambda m: m.fit(X[:1], ["a"]), ValueError, "at least 2 samples"),
        (lambda m: m + 3, ValueError, "without_classes"),
        (lambda m: m + OpenWorldRecognizer(), NotFittedError, "not fitted"),
        (lambda m: m + fitted({"standardize": True, "n_lifted": 3}), ValueError, "without_classes"),
        (lambda m: m + fitted({"standardize": False, "n_lifted": 0}), TypeError, "string"),
    ],
)
def test_a_change_that_is_refused_changes_nothing(change, error, message):
    names = np.array(["a", "b", "c"])[Y]
    model = fitted({"standardize": False, "n_lifted": 0}, labels=names)
    before = state(model)
    with pytest.raises(error, match=message):
        change(model)
    assert state(model) == before


def test_the_last_class_stays():
    model = fitted()
    model.forget_class(0)
    model.merge_classes([1, 2], 1)
    with pytest.warns(UserWarning, match="1 class"):
        assert model.predict(np.vstack([X[60:70], 50 * X[:2]])).tolist() == [1] * 10 + [-1, -1]
    before = state(model)
    with pytest.raises(ValueError, match="the last one cannot go"):
        model.forget_class(1)
    assert state(model) == before


def test_before_fitting():
    model = OpenWorldRecognizer()
    for call in (model.predict, model.decision_function, model.membership, model.nearest_classes):
        with pytest.raises(NotFittedError):
            call(X)
    for change in (
        lambda: model.forget_class(0),
        lambda: model.rename_class(0, 1),
        lambda: model.merge_classes([0], 1),
        model.without_classes,
        lambda: model + fitted(),
    ):
        with pytest.raises(NotFittedError):
            change()
    assert not hasattr(model, "classes_")


# --- Adding models ---


@EVERY_FORM
def test_parts_learned_apart_add_up(form):
    model = fitted(form, X[:100], Y[:100])
    whole = deepcopy(model).partial_fit(X[100:], Y[100:]).partial_fit(NEW, Y + 5)
    parts = [
        model.without_classes().partial_fit(samples, labels)
        for samples, labels in ((X[100:], Y[100:]), (NEW[::2], Y[::2] + 5), (NEW[1::2], Y[1::2] + 5))
    ]
    before = [part.statistics_.counts.tolist() for part in parts]
    for order in ([0, 1, 2], [2, 0, 1]):
        total = model
        for i in order:
            total = total + parts[i]
        np.testing.assert_allclose(total.decision_function(NEW), whole.decision_function(NEW), atol=1e-5)
        np.testing.assert_array_equal(total.predict(NEW), whole.predict(NEW))
    assert [part.statistics_.counts.tolist() for part in parts] == before
    assert model.classes_.tolist() == [0, 1]


def test_a_part_without_classes_answers_nothing():
    part = fitted().without_classes()
    assert part.classes_.tolist() == []
    with pytest.raises(ValueError, match="knows no class"):
        part.predict(X)
    part.partial_fit(X, Y)
    assert part.predict(X).shape == (150,)


def test_a_part_keeps_the_precision_of_its_reservoir():
    part = fitted({"standardize": True, "n_lifted": 0}, X + 1e7).without_classes()
    assert part.reservoir_.dtype == np.float64


def test_lifts_that_differ_do_not_add_up():
    """The same seed need not mean the same rows, if another version of numpy drew them."""
    model = fitted({"standardize": False, "n_lifted": 12})
    other = deepcopy(model)
    representation = other.memory_.representation
    other.memory_.representation = representation.with_rows(representation.rows + 1)
    with pytest.raises(ValueError, match="one representation"):
        _ = model + other


# --- Little and strange data ---


@pytest.mark.parametrize(
    "names",
    [[3, 1, 2], ["c", "Ælfgifu 猫", "b"], [b"c", b"\xff\x00a", b"b"], [1.0, -2.0, 1e17], [2**53 + 1, -5, 0]],
    ids=["integers", "strings", "bytes", "floats", "large integers"],
)
def test_labels_of_any_kind(names):
    expected, model = fitted(), fitted(labels=np.array(names)[Y])
    answers = model.predict(np.vstack([NEW, [[1e9] * 4]]))
    assert answers[-1] == model.unknown_label_
    plain = expected.predict(NEW)
    assert answers[:-1].tolist() == [names[code] if code >= 0 else model.unknown_label_ for code in plain]
    model.partial_fit(NEW[:5], np.array(names)[Y[:5]])
    model.forget_class(names[0])
    assert set(model.classes_.tolist()) == set(names[1:])


def test_boolean_labels():
    model = fitted(labels=Y > 0)
    assert set(model.predict(np.vstack([X, [[1e9] * 4]])).tolist()) == {True, False, -1}


def test_one_feature():
    random = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 30)
    samples = (10.0 * labels + random.normal(size=90))[:, np.newaxis]
    model = OpenWorldRecognizer().fit(samples, labels)
    assert np.mean(model.predict(samples) == labels) > 0.8
    assert model.predict([[1e9], [-1e9]]).tolist() == [-1, -1]
    model.partial_fit([[-300.0], [-301.0]], [7, 7])
    assert model.predict([[-300.5]]).tolist() == [7]


def test_two_classes_of_two_samples():
    samples = np.array([[0.0, 1.0], [0.1, 1.0], [1.0, 0.0], [1.0, 0.1]])
    with pytest.warns(UserWarning, match="Too little to calibrate with: 2 class"):
        model = OpenWorldRecognizer().fit(samples, [0, 0, 1, 1])
    assert model.predict(samples).tolist() == [0, 0, 1, 1]
    assert model.predict(100 * samples).tolist() == [-1] * 4


@pytest.mark.parametrize("n_samples", [5, 40])
def test_one_class(n_samples):
    random = np.random.default_rng(0)
    with pytest.warns(UserWarning, match="1 class"):
        model = OpenWorldRecognizer().fit(3 + random.normal(size=(n_samples, 3)), ["a"] * n_samples)
    assert np.mean(model.predict(3 + random.normal(size=(200, 3))) == "a") > 0.5
    assert np.mean(model.predict(random.uniform(-90, 90, size=(200, 3))) == "unknown") > 0.95
    model.partial_fit(-9 + random.normal(size=(30, 3)), ["b"] * 30)
    assert np.mean(model.predict(-9 + random.normal(size=(200, 3))) == "b") > 0.8


def test_classes_of_one_sample_each():
    centers = 10 * np.eye(4)
    with pytest.warns(UserWarning, match="The threshold is a guess"):
        model = OpenWorldRecognizer().fit(centers, list("abcd"))
    near = centers + 0.5 * np.random.default_rng(0).normal(size=(4, 4))
    assert model.predict(near).tolist() == list("abcd")
    assert model.predict(-centers).tolist() == ["unknown"] * 4


def test_one_sample_is_too_few():
    with pytest.raises(ValueError, match="at least 2 samples"):
        OpenWorldRecognizer().fit([[1.0, 2.0]], ["a"])


@pytest.mark.parametrize("n_samples", [3, 5, 10])
def test_two_classes_of_few_samples_accept_their_own(n_samples):
    """Blobs nine deviations apart: hardly a known sample is rejected, hardly an unknown one accepted."""
    random = np.random.default_rng(n_samples)
    known, unknown = [], []
    for _ in range(10):
        centers = np.vstack([np.zeros(5), 9 * np.eye(5)])
        labels = np.repeat([0, 1], n_samples)
        model = OpenWorldRecognizer().fit(centers[labels] + random.normal(size=(2 * n_samples, 5)), labels)
        answers = model.predict(np.repeat(centers, 20, axis=0) + random.normal(size=(120, 5)))
        known.append(np.mean(answers[:40] == np.repeat([0, 1], 20)))
        unknown.append(np.mean(answers[40:] == -1))
    assert np.mean(known) > 0.9
    assert np.mean(unknown) > (0.95 if n_samples > 3 else 0.6)


@pytest.mark.parametrize("counts", [(500, 50, 5, 1), (50, 50, 50, 50)])
def test_blobs_of_uneven_size(counts):
    """What a new user tries first."""
    random = np.random.default_rng(0)
    centers = np.vstack([9 * np.eye(5), -9 * np.eye(5)[:3]])
    labels = np.repeat(np.arange(4), counts)
    model = OpenWorldRecognizer().fit(centers[labels] + random.normal(size=(len(labels), 5)), labels)
    answers = model.predict(np.repeat(centers, 50, axis=0) + random.normal(size=(400, 5)))
    assert np.mean(answers[:200] == np.repeat(np.arange(4), 50)) > 0.97
    assert np.mean(answers[200:] == -1) > 0.97


def test_a_class_of_few_samples_is_not_rejected():
    """At the same share of unknown samples rejected, undoing the attenuation finds more of a small class."""
    model = OpenWorldRecognizer(n_lifted=200).fit(*digits_of(TRAIN, range(6)))
    samples, labels = digits_of(TRAIN, [6, 7])
    few = np.concatenate([np.flatnonzero(labels == c)[:2] for c in (6, 7)])
    model.partial_fit(samples[few], labels[few])
    test, expected = digits_of(TEST, [6, 7])
    unknown = digits_of(TEST, [8, 9])[0]
    recalls = []
    for noise in (0.0, model.calibration_.noise):
        calibration = ScoreCalibration(False, 0.0, 0.0, noise, 0.0)
        scored_by(model, calibration)
        decision = model.decision_function(test)
        threshold = np.quantile(model.decision_function(unknown).max(axis=1), 0.85)
        right = model.classes_[decision.argmax(axis=1)] == expected
        recalls.append(np.mean(right & (decision.max(axis=1) > threshold)))
    assert recalls[1] > recalls[0]


def test_duplicates_weigh_in_the_means_only():
    samples, labels = np.repeat(X, 4, axis=0), np.repeat(Y, 4)
    model = fitted(samples=samples, labels=labels)
    assert model.statistics_.counts.tolist() == [200.0] * 3
    assert sum(map(len, model.reservoir_._kept.values())) == len(np.unique(X.astype(np.float32), axis=0))
    assert np.mean(model.predict(samples) == labels) > 0.7


def test_all_samples_of_a_class_the_same():
    samples = np.vstack([X, np.tile([[-3.0, 1.0, -3.0, 1.0]], (10, 1))])
    model = fitted(samples=samples, labels=np.r_[Y, [9] * 10])
    assert model.predict(samples[-1:]).tolist() == [9]


def test_classes_of_one_sample_learned_later():
    random = np.random.default_rng(0)
    model = OpenWorldRecognizer(n_lifted=0).fit(*digits_of(TRAIN, range(5)))
    samples, labels = digits_of(TRAIN, range(5, 10))
    first = [int(random.choice(np.flatnonzero(labels == c))) for c in range(5, 10)]
    for row in first:
        model.partial_fit(samples[row : row + 1], labels[row : row + 1])
        assert model.predict(samples[row : row + 1]).tolist() == labels[row : row + 1].tolist()
    test, expected = digits_of(TEST, range(5, 10))
    answers = model.predict(test)
    assert np.mean((answers == expected)[answers >= 0]) > 0.6
    assert np.mean(answers >= 0) > 0.1
    assert np.isfinite(model.decision_function(test)).all()


def test_a_sample_without_any_feature():
    model = fitted({"standardize": False, "n_lifted": 0})
    assert np.all(np.isfinite(model.decision_function(np.zeros((1, 4)))))
    model.partial_fit(np.zeros((3, 4)), [9] * 3)
    assert np.all(np.isfinite(model.decision_function(np.zeros((1, 4)))))


def test_nothing_but_zeros():
    with pytest.warns(UserWarning, match="Too little to calibrate with"):  # of equal samples one is kept
        model = OpenWorldRecognizer(n_lifted=0).fit(np.zeros((9, 2)), list("aaabbbccc"))
    assert np.all(np.isfinite(model.decision_function([[0.0, 0.0], [1e3, 1.0]])))
    assert model.predict([[1e3, 1.0]]).tolist() == ["unknown"]


@pytest.mark.parametrize("offset", [1e3, 1e5, 1e6, 1e7, 1e9])
def test_a_large_offset(offset):
    """The reservoir must not round away what sets the samples apart."""
    form = {"standardize": True, "n_lifted": 0}
    centered, model = fitted(form), fitted(form, X + offset)
    assert model.calibration_.quality > centered.calibration_.quality - 0.05
    agree = model.decision_function(NEW + offset).argmax(axis=1) == centered.decision_function(NEW).argmax(
        axis=1
    )
    assert np.mean(agree) > 0.85
    assert fitted(samples=X + offset).calibration_.quality > 0.7


def test_the_reservoir_is_precise_where_it_has_to_be():
    constant = np.column_stack([X, np.full(150, 0.1), np.full(150, 1e9)])
    for samples in (X, X.astype(np.float32) + 1e6, constant, 1e30 * X, (1e3 * X).astype(np.int64)):
        assert fitted(samples=samples).reservoir_.dtype == np.float32
    for samples in (X + 1e6, (X * 10).astype(np.int64) + 10**9, np.column_stack([X, 1e9 + X[:, 0]])):
        assert fitted(samples=samples).reservoir_.dtype == np.float64


@pytest.mark.parametrize("value", [1e6, -1e12, 1e30, 3e38])
def test_a_wrong_value_among_the_starting_samples(value):
    samples = X.copy()
    samples[0, 0] = value
    model = fitted(samples=samples)
    assert np.all(np.isfinite(model.decision_function(NEW)))
    assert set(model.predict(1e300 * X).tolist()) == {-1}


@pytest.mark.parametrize("label", [9, 2])
def test_samples_from_afar_widen_no_other_class(label):
    """Neither as a class of their own nor among the samples of a class that lies near."""
    model = fitted()
    before = model._current().radii
    model.partial_fit(-1e20 * NEW[:10], [label] * 10)
    np.testing.assert_allclose(model._current().radii[:2], before[:2], rtol=0.1)
    assert set(model.predict(1e4 * X[Y == 0]).tolist()) == {-1}
    assert 1 not in model.predict(1e4 * X)
    if label == 9:
        assert np.mean(model.predict(-1e20 * NEW[:10]) == 9) > 0.7


def test_single_and_double_precision_agree():
    single = fitted(samples=X.astype(np.float32))
    assert np.mean(single.predict(NEW.astype(np.float32)) == fitted().predict(NEW)) > 0.97


# --- Parameters ---


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_lifted": -1}, "'n_lifted' parameter .* an int in the range"),
        ({"n_lifted": 2.5}, "'n_lifted' parameter"),
        ({"n_lifted": None}, "'n_lifted' parameter"),
        ({"reservoir_size": 0}, "'reservoir_size' parameter .* an int in the range"),
        ({"reservoir_size": "10"}, "'reservoir_size' parameter"),
        ({"refresh_growth": -0.1}, "'refresh_growth' parameter .* a float in the range"),
        ({"refresh_growth": np.nan}, "'refresh_growth' parameter"),
        ({"refresh_growth": np.inf}, "'refresh_growth' parameter"),
        ({"refresh_growth": "x"}, "'refresh_growth' parameter"),
        ({"metric": NearestNonOutlier()}, "'metric' parameter"),
        ({"objective": None}, "'objective' parameter"),
    ],
)
def test_parameters_that_make_no_sense(parameters, message):
    model = OpenWorldRecognizer(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)
    assert not hasattr(model, "metric_")


@pytest.mark.parametrize("reservoir_size", [1, 2, 500])
def test_any_size_of_reservoir(reservoir_size):
    model = fitted(reservoir_size=reservoir_size)
    assert np.mean(model.predict(X) == Y) > 0.6


def test_what_the_objective_asks_for_is_reached():
    """As far as samples held out tell: on test samples, roughly."""
    train, labels = digits_of(TRAIN, range(7))
    known, unknown = digits_of(TEST, range(7))[0], digits_of(TEST, [7, 8, 9])[0]
    shares = {}
    for objective in (FalseAcceptRate(0.02), MinOpenWorldError(), F1(0.9), KnownRecall(0.995)):
        model = OpenWorldRecognizer(objective, n_lifted=0).fit(train, labels)
        shares[objective] = (np.mean(model.predict(known) != -1), np.mean(model.predict(unknown) != -1))
    assert shares[FalseAcceptRate(0.02)][1] < 0.1
    assert shares[KnownRecall(0.995)][0] > 0.95
    assert shares[FalseAcceptRate(0.02)][1] <= shares[MinOpenWorldError()][1] < shares[KnownRecall(0.995)][1]


def test_random_state_determines_the_lift():
    one, same, other = (candidate_metrics(4, 30, seed)[1].fit(X, Y).transform(X) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)


# --- Threads ---


def test_threads_that_predict_after_a_change():
    """The model is made again by whoever asks first; the others get the same answers."""
    samples = DIGITS[TEST]
    model = OpenWorldRecognizer(n_lifted=60).fit(*digits_of(TRAIN, range(4)))
    for label in range(4, 8):
        model.partial_fit(*digits_of(TRAIN, [label]))
        expected = deepcopy(model).decision_function(samples)
        barrier, found, errors = Barrier(4), [], []

        def ask(barrier=barrier, found=found, errors=errors):
            try:
                barrier.wait(timeout=300)
                found.append(model.decision_function(samples))
            except Exception as error:
                errors.append(error)

        threads = [Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert len(found) == 4
        for decision in found:
            np.testing.assert_array_equal(decision, expected)


# --- The operating point ---


def test_the_operating_point_moves_and_nothing_is_learned_again():
    model = OpenWorldRecognizer(n_lifted=200).fit(*digits_of(TRAIN, range(6)))
    scatter = model.statistics_.scatter.copy()
    test, expected = digits_of(TEST, range(6))
    unknown = digits_of(TEST, [6, 7, 8, 9])[0]
    found = {}
    for objective in (FalseAcceptRate(0.01), MinOpenWorldError(), KnownRecall(0.99)):
        assert model.set_objective(objective) is model
        known = np.mean(model.predict(test) == expected)
        found[type(objective)] = known, np.mean(model.predict(unknown) == -1)
    assert found[FalseAcceptRate][0] < found[KnownRecall][0]
    assert found[FalseAcceptRate][1] > found[KnownRecall][1]
    np.testing.assert_array_equal(model.statistics_.scatter, scatter)
    again = OpenWorldRecognizer(KnownRecall(0.99), n_lifted=200).fit(*digits_of(TRAIN, range(6)))
    np.testing.assert_array_equal(model.decision_function(test), again.decision_function(test))


def test_an_operating_point_that_cannot_be_found_changes_nothing():
    class Impossible:
        def value(self, known, unknown, n_known, n_unknown):
            return np.full(len(known), -np.inf)

    model = fitted()
    before = state(model)
    with pytest.raises(ValueError, match="No threshold satisfies"):
        model.set_objective(Impossible())
    assert state(model) == before
    assert model.objective == MinOpenWorldError()


# --- Known unknowns ---


def _with_unknowns(**parameters):
    """Three classes, and samples labeled unknown that lie where one of them would be accepted."""
    near = X[Y == 0][:30] * 0.5 + X[Y == 1][:30] * 0.5
    samples, labels = np.vstack([X, near]), np.r_[Y, np.full(30, -1)]
    return near, samples, labels, OpenWorldRecognizer(learn_unknowns=True, n_lifted=0, **parameters)


def test_samples_with_the_unknown_label_are_refused_unless_asked_for():
    _, samples, labels, _ = _with_unknowns()
    with pytest.raises(ValueError, match="label that means unknown"):
        OpenWorldRecognizer().fit(samples, labels)


def test_known_unknowns_move_the_threshold_and_no_class_mean():
    near, samples, labels, model = _with_unknowns()
    model.fit(samples, labels)
    plain = OpenWorldRecognizer(n_lifted=0).fit(X, Y)
    assert model.classes_.tolist() == plain.classes_.tolist()
    np.testing.assert_array_equal(model.statistics_.sums, plain.statistics_.sums)
    assert np.mean(model.predict(near) == -1) >= np.mean(plain.predict(near) == -1)
    assert model.threshold_ != plain.threshold_


@pytest.mark.parametrize("growth", [0.0, 0.1])
def test_known_unknowns_learned_in_any_order_or_part_are_the_same(growth):
    near, samples, labels, model = _with_unknowns(refresh_growth=growth)
    model.fit(samples, labels)
    later = clone(model).fit(X, Y)
    later.learn_unknown(near[::-1][:10]).partial_fit(near[::-1][10:], np.full(20, -1))
    part = later.without_classes()
    assert len(part.memory_.kept_unknowns()) == 0
    for other in (later, later + part, deepcopy(later)):
        np.testing.assert_array_equal(other.memory_.kept_unknowns(), model.memory_.kept_unknowns())
        if not growth:
            assert other.threshold_ == model.threshold_


def test_one_class_has_a_threshold_between_it_and_known_unknowns():
    random = np.random.default_rng(0)
    samples, unknowns = random.normal(size=(40, 3)), random.normal(size=(40, 3)) + 5
    with pytest.warns(UserWarning, match="guess"):
        model = OpenWorldRecognizer(learn_unknowns=True).fit(
            np.vstack([samples, unknowns]), np.repeat([7, -1], 40)
        )
    assert np.mean(model.predict(samples) == 7) > 0.9
    assert np.mean(model.predict(unknowns) == -1) > 0.9


def test_nothing_but_unknowns_cannot_be_fitted():
    with pytest.raises(ValueError, match="at least 2 samples to start with; got no sample of a class"):
        OpenWorldRecognizer(learn_unknowns=True).fit(X, np.full(len(X), -1))
