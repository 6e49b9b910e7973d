"""Calibration by leaving classes out, against brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_iris

from openworld import F1, ClassStatistics, FalseAcceptRate, KnownRecall, MinOpenWorldError
from openworld.evaluation.score_measures import Scores
from openworld.evaluation.score_measures import oscr_area as measured_oscr_area
from openworld.recognition.adaptive import calibration as class_out
from openworld.recognition.adaptive.calibration import (
    TIGHTNESS_WEIGHTS,
    HeldOut,
    ScoreCalibration,
    calibrate,
    filled,
    hold_out,
    oscr_area,
    similarities_as_unknown,
    tightness,
)
from openworld.recognition.adaptive.metric import Whitening, unit
from openworld.recognition.threshold import best_threshold

IRIS, CODES = load_iris(return_X_y=True)
OBJECTIVES = [F1(0.9), F1(0.0), FalseAcceptRate(0.1), KnownRecall(0.8), MinOpenWorldError()]


# --- Tightness ---


def cosine(a, b):
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def tightness_by_hand(samples, codes, shown):
    """Similarity of every shown sample to the mean of all others of its class, averaged."""
    similarities = {}
    for i in shown:
        others = [j for j in range(len(samples)) if codes[j] == codes[i] and j != i]
        if others:
            others_mean = samples[others].mean(axis=0)
            similarities.setdefault(codes[i], []).append(cosine(samples[i], others_mean))
    tight = {c: np.mean(values) for c, values in similarities.items()}
    average = np.mean(list(tight.values())) if tight else 1.0
    return [tight.get(c, average) for c in range(codes.max() + 1)]


@pytest.mark.parametrize("sizes", [(5, 9, 3), (2, 2), (1, 6, 1), (1, 1), (4, 1, 2)])
@pytest.mark.parametrize("per_class", [1, 2, 100])
def test_tightness(sizes, per_class):
    random = np.random.default_rng(0)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    samples = random.normal(size=(len(codes), 4)) + 2 * random.normal(size=(len(sizes), 4))[codes]
    means = np.array([samples[codes == c].mean(axis=0) for c in range(len(sizes))])
    shown = np.concatenate([np.flatnonzero(codes == c)[:per_class] for c in range(len(sizes))])
    few = samples[shown].astype(np.float32)
    counts = np.array(sizes, dtype=float)
    found = filled(tightness(unit(few), few, codes[shown], means.astype(np.float32), counts))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, tightness_by_hand(samples, codes, shown), atol=1e-5)


def test_a_class_that_shows_no_sample_gets_the_average():
    samples = np.array([[1.0, 0.1], [1.0, -0.1]], dtype=np.float32)
    means = np.array([[1.0, 0.0], [0.0, 1.0]], dtype=np.float32)
    found = filled(tightness(unit(samples), samples, np.array([0, 0]), means, np.array([2.0, 5.0])))
    assert found[1] == found[0]


# --- Holding out ---


def data(sizes=(8, 5, 11, 2), n_features=3, seed=0):
    random = np.random.default_rng(seed)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    centres = random.normal(size=(len(sizes), n_features))
    samples = centres[codes] + random.normal(size=(len(codes), n_features))
    return samples.astype(np.float32), codes


def kept_of(codes, per_class):
    return np.concatenate([np.flatnonzero(codes == c)[:per_class] for c in np.unique(codes)])


@pytest.mark.parametrize("per_class", [2, 4, 100])
@pytest.mark.parametrize("names", [[30, 20, 10, 0], ["d", "a", "c", "b"], [True, False, True, False]])
def test_holding_out_is_refitting_without_the_held_samples(per_class, names):
    """A third at a time, everything else refitted from the samples; class names are not in order."""
    if names[0] is True:
        names = names[:2]
    samples, codes = data(sizes=(8, 5, 11, 2)[: len(names)])
    labels = np.array([names[code] for code in codes])
    statistics = ClassStatistics("pooled").add(samples, labels)
    order = np.array([statistics.row(name) for name in names])
    kept = kept_of(codes, per_class)
    found = hold_out(statistics, order, samples[kept], codes[kept])

    rank = np.concatenate([np.arange(np.sum(codes[kept] == c)) for c in range(len(names))])
    start = 0
    for fold in range(3):
        held = kept[rank % 3 == fold]
        if not len(held):
            continue
        rest = np.setdiff1d(np.arange(len(codes)), held)
        shown = np.setdiff1d(kept, held)
        whitening = Whitening.of(ClassStatistics("pooled").add(samples[rest], codes[rest]), found.power)
        white = whitening(samples)
        means = np.array([white[rest][codes[rest] == c].mean(axis=0) for c in range(len(names))])
        end = start + len(held)
        assert found.codes[start:end].tolist() == codes[held].tolist()
        expected = [[cosine(white[i], mean) for mean in means] for i in held]
        np.testing.assert_allclose(found.similarities[start:end], expected, atol=1e-4)
        expected = tightness_by_hand(white[rest], codes[rest], [list(rest).index(i) for i in shown])
        np.testing.assert_allclose(found.tightness[start:end], [expected] * len(held), atol=1e-4)
        start = end
    assert start == len(found.codes) == len(kept)


def test_held_samples_are_not_in_the_statistics_they_are_judged_by(monkeypatch):
    samples, codes = data()
    statistics = ClassStatistics("pooled").add(samples, codes)
    counts, scatter = statistics.counts.copy(), statistics.scatter.copy()
    used, judged = [], []
    of, judge = Whitening.of.__func__, class_out._judge

    def spy_on_statistics(cls, rest, power):
        used.append(rest)
        return of(cls, rest, power)

    def spy_on_held(rest, power, labels, given, given_codes, held):
        judged.append(held.copy())
        return judge(rest, power, labels, given, given_codes, held)

    monkeypatch.setattr(Whitening, "of", classmethod(spy_on_statistics))
    monkeypatch.setattr(class_out, "_judge", spy_on_held)
    hold_out(statistics, np.arange(4), samples, codes)
    assert len(used) == len(judged) == 5  # the first third with three powers
    for rest, held in zip(used, judged, strict=True):
        without = ClassStatistics("pooled").add(samples[~held], codes[~held])
        np.testing.assert_allclose(rest.counts, without.counts)
        np.testing.assert_allclose(rest.means, without.means, atol=1e-6)
        np.testing.assert_allclose(rest.scatter, without.scatter, atol=1e-6)
    assert np.sum(judged[2:], axis=0).tolist() == [1] * len(codes)  # each sample is held out exactly once
    np.testing.assert_array_equal(statistics.counts, counts)  # and what was learnt is left alone
    np.testing.assert_array_equal(statistics.scatter, scatter)


def test_a_held_sample_tells_nothing_about_itself():
    """A sample far from its class is similar to it only as long as it has a part in the mean."""
    random = np.random.default_rng(0)
    samples = random.normal(size=(12, 3)).astype(np.float32) * 0.1 + np.repeat(np.eye(3)[:2], 6, axis=0)
    samples[0] = [0, 0, 50]
    codes = np.repeat([0, 1], 6)
    samples = samples.astype(np.float32)
    statistics = ClassStatistics("pooled").add(samples, codes)
    found = hold_out(statistics, np.arange(2), samples, codes)
    whitening = Whitening.of(statistics)
    seen = unit(whitening(samples[:1])) @ unit(whitening(statistics.means.astype(np.float32))).T
    assert found.similarities[0, 0] < seen[0, 0] - 0.5


def test_classes_of_one_sample_are_not_judged_but_judge():
    samples, codes = data(sizes=(1, 6, 1, 4))
    statistics = ClassStatistics("pooled").add(samples, codes)
    found = hold_out(statistics, np.arange(4), samples, codes)
    assert sorted(found.codes.tolist()) == [1] * 6 + [3] * 4
    assert found.similarities.shape == (10, 4)


def test_no_class_is_ever_emptied():
    samples, codes = data(sizes=(2, 2, 3))
    statistics = ClassStatistics("pooled").add(samples, codes)
    found = hold_out(statistics, np.arange(3), samples, codes)
    assert sorted(found.codes.tolist()) == [0, 0, 1, 1, 2, 2, 2]
    assert np.all(np.isfinite(found.similarities))


def test_nothing_to_hold_out():
    samples, codes = data(sizes=(1, 1, 1))
    statistics = ClassStatistics("pooled").add(samples, codes)
    with pytest.raises(ValueError, match="at least 2 classes with 2 samples each"):
        hold_out(statistics, np.arange(3), samples, codes)


def test_repeated_samples_of_which_one_is_shown():
    samples = np.repeat(np.eye(3, dtype=np.float32), 5, axis=0)
    statistics = ClassStatistics("pooled").add(samples, np.repeat([0, 1, 2], 5))
    found = hold_out(statistics, np.arange(3), np.eye(3, dtype=np.float32), np.arange(3))
    assert found.similarities.argmax(axis=1).tolist() == found.codes.tolist()


# --- As unknown ---


@pytest.mark.parametrize("n_classes", [3, 4, 9])
def test_as_unknown_is_seen_from_the_centre_of_the_other_classes(n_classes):
    samples, codes = data(sizes=(4,) * n_classes, n_features=5)
    means = np.array([samples[codes == c].mean(axis=0) for c in range(n_classes)])
    centre = means.mean(axis=0)
    found = similarities_as_unknown(samples - centre, means - centre, codes)
    for i, code in enumerate(codes):
        without = np.delete(means, code, axis=0).mean(axis=0)
        expected = [cosine(samples[i] - without, mean - without) for mean in means]
        expected[code] = -np.inf
        np.testing.assert_allclose(found[i], expected, atol=1e-5)


def test_as_unknown_to_two_classes_is_what_sets_a_sample_apart_from_its_own():
    means = np.array([[2, 0], [-2, 0]], dtype=np.float32)
    samples = np.array([[3, 1], [-2, 5]], dtype=np.float32)
    root = 0.5**0.5
    np.testing.assert_allclose(
        similarities_as_unknown(samples, means, np.array([0, 1])), [[root, -root], [0, 0]], atol=1e-6
    )


def test_with_very_many_classes_some_are_judged(monkeypatch):
    samples, codes = data(sizes=(6,) * 10)
    statistics = ClassStatistics("pooled").add(samples, codes)
    monkeypatch.setattr(class_out, "_MOST_JUDGED", 60 * 10 // 3)
    found = hold_out(statistics, np.arange(10), samples, codes)
    assert np.unique(found.codes).tolist() == [0, 3, 6, 9]
    assert found.similarities.shape == (24, 10)


# --- OSCR ---


@given(
    known=st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=25),
    unknown=st.lists(st.integers(0, 6), min_size=1, max_size=25),
)
def test_oscr_area_with_ties(known, unknown):
    scores = np.array([score for score, _ in known], dtype=float) / 7
    correct, others = np.array([right for _, right in known]), np.array(unknown, dtype=float) / 7
    pairs = [
        (1.0 if a > b else 0.5 if a == b else 0.0) * right
        for a, right in zip(scores, correct, strict=True)
        for b in others
    ]
    found = oscr_area(scores, correct, others)
    assert found == pytest.approx(np.mean(pairs))
    assert found == pytest.approx(measured_oscr_area(Scores.of(scores, others, correct)))


# --- Calibration ---


def held_out(n=60, n_classes=5, seed=0, signal=1.0):
    """Scores with some signal, and classes of different tightness."""
    random = np.random.default_rng(seed)
    codes = random.integers(0, n_classes, size=n)
    tight = random.uniform(0.2, 0.9, size=n_classes)
    similarities = random.uniform(-0.3, 0.4, size=(n, n_classes)) + 0.4 * tight
    similarities[np.arange(n), codes] += signal * tight[codes] * random.uniform(0, 1, size=n)
    return judged(
        similarities.astype(np.float32),
        np.broadcast_to(tight.astype(np.float32), similarities.shape),
        codes.astype(np.intp),
    )


def judged(similarities, tight, codes):
    """Samples that look alike to the other classes whether their own is known or not."""
    as_unknown = similarities.copy()
    as_unknown[np.arange(len(codes)), codes] = -np.inf
    return HeldOut(similarities, as_unknown, tight, codes)


def known_and_unknown(held, weight):
    """Each sample once with all classes known, and once with its own class taken out."""
    known, correct, unknown = [], [], []
    for similarity, tight, code in zip(held.similarities, held.tightness, held.codes, strict=True):
        scores = (similarity - np.float32(weight) * tight).astype(np.float64)
        known.append(max(scores))
        correct.append(int(np.argmax(scores)) == code)
        unknown.append(max(score for c, score in enumerate(scores) if c != code))
    return np.array(known), np.array(correct), np.array(unknown)


@pytest.mark.parametrize("seed", range(8))
def test_the_best_weight_is_taken(seed):
    held = held_out(seed=seed)
    qualities = {w: oscr_area(*known_and_unknown(held, w)) for w in TIGHTNESS_WEIGHTS}
    found = calibrate(held, MinOpenWorldError())
    assert found.quality == pytest.approx(max(qualities.values()), abs=1e-6)
    assert qualities[found.weight] == pytest.approx(found.quality, abs=1e-6)


def test_every_weight_is_the_best_for_some_data():
    weights = {calibrate(held_out(n=30, seed=seed), MinOpenWorldError()).weight for seed in range(60)}
    assert weights == set(TIGHTNESS_WEIGHTS)


def test_of_equally_good_weights_the_smallest():
    held = judged(np.eye(3, dtype=np.float32), np.full((3, 3), 0.5, dtype=np.float32), np.arange(3))
    assert calibrate(held, MinOpenWorldError()).weight == 0.0


@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
@pytest.mark.parametrize("seed", range(4))
def test_the_threshold_is_the_average_of_the_best_for_balanced_halves_of_the_classes(objective, seed):
    held = held_out(seed=seed, signal=0.6)
    found = calibrate(held, objective)
    known, correct, unknown = known_and_unknown(held, found.weight)
    ranked = sorted(range(5), key=lambda c: known[held.codes == c].mean())
    best = []
    for number in range(32):
        # In half of the classes by the parity of common bits: every two halves share half of theirs.
        half = [(number & (1 + rank)).bit_count() % 2 == 0 for rank in range(5)]
        rows = [i for i in range(len(known)) if half[ranked.index(held.codes[i])]]
        if rows:
            best.append(-best_threshold(-known[rows], -unknown[rows], objective, correct[rows])[0])
    assert found.threshold == pytest.approx(np.mean(best), abs=1e-6)


def test_of_classes_that_are_all_alike_the_threshold_is_the_best_there_is():
    similarities = np.tile(np.array([[0.9, 0.3], [0.7, 0.25], [0.2, 0.1]], dtype=np.float32), (2, 1))
    similarities[3:] = similarities[3:, ::-1]
    held = judged(similarities, np.zeros((6, 2), dtype=np.float32), np.repeat([0, 1], 3))
    # Known samples at .9, .7, .2 and unknown ones at .3, .25, .1: the cut between .3 and .7.
    assert calibrate(held, MinOpenWorldError()).threshold == pytest.approx(0.5)


def test_calibration_on_iris_is_sound():
    statistics = ClassStatistics("pooled").add(IRIS.astype(np.float32), CODES)
    held = hold_out(statistics, np.arange(3), IRIS.astype(np.float32), CODES.astype(np.intp))
    found = calibrate(held, MinOpenWorldError())
    assert 0.5 < found.quality < 0.6  # without setosa, it looks like versicolor seen from virginica
    assert -1 < found.threshold < 1
    assert found.slope > 0


# --- Probabilities ---


@pytest.mark.parametrize("seed", range(5))
def test_probability_rises_with_the_score(seed):
    found = calibrate(held_out(seed=seed), MinOpenWorldError())
    probabilities = found.probability(np.linspace(-2, 2, 101, dtype=np.float32))
    assert probabilities.dtype == np.float64
    assert np.all(np.diff(probabilities) >= 0)
    assert np.all((probabilities >= 0) & (probabilities <= 1))


def test_probability_rises_even_where_the_samples_say_otherwise():
    scores = np.linspace(0, 1, 50)
    slope, _ = class_out._logistic(scores, scores < 0.5)
    assert slope > 0


@pytest.mark.parametrize(("slope", "intercept"), [(8.0, -2.0), (30.0, 3.0), (2.0, 0.5)])
def test_the_logistic_curve_is_found_again(slope, intercept):
    random = np.random.default_rng(0)
    scores = random.uniform(-0.6, 0.8, size=20_000)
    right = random.uniform(size=20_000) < 1 / (1 + np.exp(-slope * scores - intercept))
    found = class_out._logistic(scores, right)
    assert found == pytest.approx((slope, intercept), rel=0.1)
    probability = ScoreCalibration(0.0, 0.0, *found, 1.0, 1.0).probability(scores.astype(np.float32))
    for low, high in ((0, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1.01)):
        bin_ = (probability >= low) & (probability < high)
        if bin_.sum() > 300:
            assert probability[bin_].mean() == pytest.approx(right[bin_].mean(), abs=0.04)


def test_separable_scores_give_a_finite_curve():
    held = judged(np.eye(4, dtype=np.float32), np.zeros((4, 4), dtype=np.float32), np.arange(4))
    found = calibrate(held, MinOpenWorldError())
    assert np.isfinite(found.slope)
    assert found.probability(np.float32([0.0, 1.0])).round(1).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("n", [10, 1000])
def test_never_right_is_never_likely(n):
    similarities = np.tile(np.float32([0.9, 0.1]), (n, 1))
    held = judged(similarities, np.zeros((n, 2), dtype=np.float32), np.ones(n, dtype=np.intp))
    found = calibrate(held, MinOpenWorldError())
    assert found.quality == 0
    assert found.probability(np.float32([0.9]))[0] < 1 / n
