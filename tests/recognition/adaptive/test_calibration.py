"""Choosing the form of the score and its threshold, against brute force."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import hadamard
from sklearn.datasets import load_iris

from openworld import F1, ClassStatistics, FalseAcceptRate, KnownRecall, MinOpenWorldError
from openworld.evaluation.score_measures import Scores
from openworld.evaluation.score_measures import oscr_area as measured_oscr_area
from openworld.recognition.adaptive import calibration as module
from openworld.recognition.adaptive.calibration import (
    PSEUDO_SAMPLES,
    ScoreCalibration,
    Scored,
    calibrate,
    oscr_area,
    two_largest,
)
from openworld.recognition.adaptive.held_out import HeldOut, Products, hold_out
from openworld.recognition.adaptive.metric import Whitening
from openworld.recognition.threshold import best_threshold

IRIS, CODES = load_iris(return_X_y=True)
OBJECTIVES = [F1(0.9), F1(0.0), FalseAcceptRate(0.1), KnownRecall(0.8), MinOpenWorldError()]
ANGULAR = ScoreCalibration(by_distance=False, weight=0.5, runner_up=0.0, noise=6.0, typical=0.4)
DISTANCE = replace(ANGULAR, by_distance=True, typical=-1.0)


def held_out_of(samples, codes):
    statistics = ClassStatistics("pooled").add(samples, codes)
    order = np.argsort(statistics.labels)
    represented = samples.astype(np.float32)
    return hold_out(statistics, Whitening.of(statistics), order, represented, codes)


def blobs(n_classes=6, per_class=12, n_features=5, spread=4.0, seed=0):
    random = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_classes), per_class)
    centers = spread * random.normal(size=(n_classes, n_features))
    return centers[codes] + random.normal(size=(len(codes), n_features)), codes


# --- The similarities ---


@pytest.mark.parametrize("counts", [np.array([3.0, 3.0, 3.0, 3.0]), np.array([1.0, 5.0, 40.0, 2.0])])
def test_similarities_by_hand(counts):
    random = np.random.default_rng(0)
    samples, means = random.normal(size=(9, 5)), random.normal(size=(4, 5))
    squares = (means**2).sum(axis=1)
    products = Products(samples @ means.T, (samples**2).sum(axis=1)[:, np.newaxis], squares, counts)
    cosines = samples @ means.T / np.outer(np.linalg.norm(samples, axis=1), np.sqrt(squares))
    undone = 1 / (1 + 6 / counts / 4)  # half of the attenuation where the noise is 4 times the length
    np.testing.assert_allclose(ANGULAR.similarities(products, 5), cosines * (1 + 6 / counts) ** (undone / 2))
    distances = np.linalg.norm(samples[:, np.newaxis] - means, axis=2)
    expected = -distances * np.sqrt(counts / (counts + 1) / 5)
    np.testing.assert_allclose(DISTANCE.similarities(products, 5), expected)


@given(n=st.integers(1, 1000))
def test_classes_of_equal_counts_rank_as_by_cosine(n):
    random = np.random.default_rng(n)
    mixed, counts = random.normal(size=(20, 7)), np.full(7, float(n))
    products = Products(mixed, np.ones((20, 1)), np.ones(7), counts)
    found = ANGULAR.similarities(products, 3)
    np.testing.assert_array_equal(found.argsort(axis=1), mixed.argsort(axis=1))


def test_the_noise_predicts_how_cosines_shrink():
    """Simulated: cosines of samples with means of n samples, over those with means of very many."""
    random = np.random.default_rng(0)
    n_features, signal = 200, 10.0
    means = random.normal(size=(40, n_features))
    means *= signal / np.linalg.norm(means, axis=1, keepdims=True)
    codes = np.repeat(np.arange(40), 30)
    samples = means[codes] + random.normal(size=(1200, n_features))
    own = np.array([samples[codes == c].mean(axis=0) for c in range(40)])
    counts, shares = np.full(40, 30.0), np.full(40, 1 / 40)
    held_out = HeldOut(samples.astype(np.float32), codes, own.astype(np.float32), counts, shares, 0.0)
    noise = module._noise(held_out)
    assert noise == pytest.approx(n_features / signal**2, rel=0.1)

    def cosine(n):
        few = np.array([samples[codes == c][:n].mean(axis=0) for c in range(40)])
        test = means + random.normal(size=means.shape)
        lengths = np.linalg.norm(few, axis=1) * np.linalg.norm(test, axis=1)
        return np.mean(np.sum(few * test, axis=1) / lengths)

    full = cosine(30) * (1 + noise / 30) ** 0.5
    for n in (1, 2, 5):
        assert cosine(n) * (1 + noise / n) ** 0.5 == pytest.approx(full, rel=0.1)


def test_a_distance_is_about_one_however_few_samples_a_class_has():
    random = np.random.default_rng(0)
    for n in (1, 2, 10, 1000):
        means = random.normal(size=(300, 50)) / np.sqrt(n)
        samples = random.normal(size=(300, 50))
        squares = ((samples - means) ** 2).sum(axis=1)[:, np.newaxis]
        zero = np.zeros((300, 1))
        similarities = DISTANCE.similarities(Products(zero, squares, zero, np.full((300, 1), float(n))), 50)
        assert np.mean(similarities**2) == pytest.approx(1, rel=0.05)


def test_the_tightness_of_few_samples_is_nearly_typical():
    own, codes = np.array([0.9, 0.7, 0.1]), np.array([0, 0, 2])
    found = ANGULAR.penalties(own, codes, 4)
    typical = PSEUDO_SAMPLES * 0.4
    expected = [(1.6 + typical) / (2 + PSEUDO_SAMPLES), 0.4, (0.1 + typical) / (1 + PSEUDO_SAMPLES), 0.4]
    np.testing.assert_allclose(found, 0.5 * np.array(expected))


@given(st.integers(1, 6), st.integers(0, 99))
def test_two_largest(n_classes, seed):
    scores = np.random.default_rng(seed).integers(0, 4, size=(8, n_classes)).astype(float)
    before = scores.copy()
    best, first, second = two_largest(scores)
    np.testing.assert_array_equal(scores, before)
    np.testing.assert_array_equal(best, scores.argmax(axis=1))
    ordered = np.sort(scores, axis=1)[:, ::-1]
    np.testing.assert_array_equal(first, ordered[:, 0])
    np.testing.assert_array_equal(second, ordered[:, 1] if n_classes > 1 else np.full(8, -np.inf))


# --- Choosing ---


@pytest.mark.parametrize("seed", range(3))
def test_the_form_that_promises_most_is_chosen(seed):
    held_out = held_out_of(*blobs(spread=1.0, seed=seed))
    found = calibrate(held_out, MinOpenWorldError())
    candidates = list(module._candidates(held_out, distances=False))
    assert len(candidates) == 3 * 3
    assert found.quality == max(candidate.quality for candidate, _ in candidates)
    assert len({round(candidate.quality, 6) for candidate, _ in candidates}) > 3
    [scored] = [scored for c, scored in candidates if (c.by_distance, c.weight, c.runner_up) == (
        found.by_distance, found.weight, found.runner_up)]  # fmt: skip
    missed = 1 - np.mean(scored.right & (scored.known > found.threshold))
    _, optimism = module._average_threshold(scored, held_out.codes, MinOpenWorldError())
    error = missed + np.mean(scored.unknown > found.threshold)
    assert found.error == pytest.approx(error + optimism)
    assert scored.error(found.threshold) == pytest.approx(error)


def test_the_scores_are_those_of_all_classes():
    """The two largest are found block by block; here from all products at once."""
    held_out = held_out_of(*blobs(spread=1.0))
    [(_, as_known, as_unknown)] = list(held_out)
    for candidate, scored in module._candidates(held_out, distances=False):
        own = candidate.similarities(held_out.own(), 5)[:, 0]
        penalties = candidate.penalties(own, held_out.codes, 6)
        for products, found in ((as_known, scored.known), (as_unknown, scored.unknown)):
            scores = np.sort(candidate.similarities(products, 5) - penalties, axis=1)
            np.testing.assert_allclose(found, scores[:, -1] - candidate.runner_up * scores[:, -2])
        scores = candidate.similarities(as_known, 5) - penalties
        np.testing.assert_array_equal(scored.right, scores.argmax(axis=1) == held_out.codes)


@pytest.mark.parametrize(("n_classes", "distances"), [(2, False), (3, False), (4, False), (4, True)])
def test_two_classes_are_compared_by_distance_and_three_without_a_runner_up(n_classes, distances):
    held_out = held_out_of(*blobs(n_classes))
    candidates = [candidate for candidate, _ in module._candidates(held_out, distances)]
    assert {candidate.by_distance for candidate in candidates} == {n_classes < 3 or distances}
    assert any(candidate.runner_up for candidate in candidates) is (n_classes > 3)


def test_what_is_promised_is_measured():
    """On samples and classes that were never seen, averaged over draws."""
    random = np.random.default_rng(0)
    promised, measured = [], []
    for _ in range(8):
        centers = 1.6 * random.normal(size=(40, 6))
        codes = np.repeat(np.arange(20), 30)
        samples = centers[codes] + random.normal(size=(len(codes), 6))
        held_out = held_out_of(samples, codes)
        found = calibrate(held_out, MinOpenWorldError(), distances=True)
        root = np.linalg.lstsq(samples[:200] - samples[:200].mean(0), (
            held_out.samples[:200] - held_out.samples[:200].mean(0)), rcond=None)[0]  # fmt: skip
        origin = samples[0] - np.linalg.lstsq(root.T, held_out.samples[0], rcond=None)[0]
        new = np.repeat(np.arange(40), 50)
        white = (centers[new] + random.normal(size=(len(new), 6)) - origin) @ root
        squares = (held_out.means**2).sum(axis=1)
        products = Products(
            white @ held_out.means.T, (white**2).sum(axis=1)[:, np.newaxis], squares, held_out.counts
        )
        own = found.similarities(held_out.own(), 6)[:, 0]
        scores = found.similarities(products, 6) - found.penalties(own, held_out.codes, 20)
        best, first, second = two_largest(scores)
        compared = first - found.runner_up * second
        known = new < 20
        right = (best == new)[known]
        missed = 1 - np.mean(right & (compared[known] > found.threshold))
        promised.append((found.quality, found.error))
        measured.append((
            oscr_area(compared[known], right, compared[~known]),
            missed + np.mean(compared[~known] > found.threshold),
        ))  # fmt: skip
    np.testing.assert_allclose(np.mean(promised, axis=0), np.mean(measured, axis=0), atol=0.03)


@pytest.mark.parametrize("sizes", [(6,), (1, 1, 1), (2, 2)])
def test_too_little_to_calibrate_with_is_said(sizes):
    codes = np.repeat(np.arange(len(sizes)), sizes)
    samples = 9.0 * np.eye(4)[codes] + np.random.default_rng(0).normal(size=(len(codes), 4))
    with pytest.warns(UserWarning, match="Too little to calibrate with"):
        found = calibrate(held_out_of(samples, codes), MinOpenWorldError())
    assert found.by_distance
    assert found.threshold < 0
    assert np.isnan(found.quality)


# --- The threshold ---


def test_in_a_wide_gap_the_threshold_stays_near_the_known_samples():
    """Of two classes the other may be far away; that says little about unknown ones."""
    random = np.random.default_rng(0)
    scored = Scored(random.normal(size=40), np.ones(40, dtype=bool), random.normal(size=40) - 1000)
    threshold, _ = module._average_threshold(scored, np.repeat([0, 1], 20), MinOpenWorldError())
    assert scored.known.min() - 1 < threshold < np.quantile(scored.known, 0.1)


def test_two_classes_that_overlap_accept_most_of_their_samples():
    """They say nothing about unknown classes; many features would, as everything lies far apart there."""
    samples, codes = blobs(n_classes=2, per_class=100, n_features=4, spread=0.5)
    held_out = held_out_of(samples, codes)
    calibration = calibrate(held_out, MinOpenWorldError(), distances=True)
    own = calibration.similarities(held_out.own(), 4)[:, 0]
    penalties = calibration.penalties(own, held_out.codes, 2)
    known, _, right, *_ = module._largest_two(held_out, [(calibration, penalties)])[0]
    share = np.mean(known[right] > calibration.threshold)
    assert 0.9 < share < 0.98


def test_samples_from_afar_do_not_lower_the_threshold_of_few_classes():
    random = np.random.default_rng(0)
    known = np.r_[random.normal(size=90), np.full(10, -1e6)]
    scored = Scored(known, np.ones(100, dtype=bool), random.normal(size=100))
    assert -5 < module._accepting_most(scored) < -1


@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
@pytest.mark.parametrize("seed", range(4))
def test_the_threshold_is_the_average_of_the_best_for_balanced_halves_of_the_classes(objective, seed):
    random = np.random.default_rng(seed)
    codes = np.repeat(np.arange(200), 3)
    known = random.normal(size=600) + random.normal(size=200)[codes]
    scored = Scored(known + 1, random.random(600) < 0.9, random.normal(size=600))
    found, optimism = module._average_threshold(scored, codes, objective)
    assert -0.02 < optimism < 0.05
    means = np.array([scored.known[codes == c].mean() for c in range(200)])
    columns = 1 + means.argsort().argsort()[codes] % (module.N_HALVES - 1)
    thresholds = []
    for row in hadamard(module.N_HALVES):
        half = row[columns] > 0
        part = (-scored.known[half], -scored.unknown[half], objective, scored.right[half])
        thresholds.append(-best_threshold(*part)[0])
    assert found == pytest.approx(np.mean(thresholds), abs=0.02)


def test_of_classes_that_are_all_alike_the_threshold_is_the_best_there_is():
    known, unknown = np.tile([0.9, 0.7, 0.2], 40), np.tile([0.1, 0.3, 0.5], 40)
    scored = Scored(known, np.ones(120, dtype=bool), unknown)
    found, optimism = module._average_threshold(scored, np.repeat(np.arange(40), 3), F1(0.0))
    assert found == pytest.approx(-best_threshold(-known, -unknown, F1(0.0))[0])
    assert optimism == pytest.approx(0, abs=0.05)


def test_optimism_is_what_a_threshold_loses_on_classes_that_did_not_choose_it():
    """Scores that say nothing: whatever threshold looks best on one half is worth nothing on the other."""
    random = np.random.default_rng(0)
    found = []
    for _ in range(50):
        scored = Scored(random.normal(size=20), np.ones(20, dtype=bool), random.normal(size=20))
        threshold, optimism = module._average_threshold(scored, np.arange(20), MinOpenWorldError())
        found.append((scored.error(threshold), optimism))
    error, optimism = np.mean(found, axis=0)
    assert error < 0.95
    assert error + optimism == pytest.approx(1, abs=0.1)


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


# --- Probabilities ---


@pytest.mark.parametrize("seed", range(5))
def test_probability_rises_with_the_score(seed):
    found = calibrate(held_out_of(*blobs(spread=1.0, seed=seed)), MinOpenWorldError())
    probabilities = found.probability(np.linspace(-2, 2, 101, dtype=np.float32))
    assert probabilities.dtype == np.float64
    assert np.all(np.diff(probabilities) >= 0)
    assert np.all((probabilities >= 0) & (probabilities <= 1))


def test_probability_rises_even_where_the_samples_say_otherwise():
    scores = np.linspace(0, 1, 50)
    slope, _ = module._logistic(scores, scores < 0.5)
    assert slope > 0


@pytest.mark.parametrize(("slope", "intercept"), [(8.0, -2.0), (30.0, 3.0), (2.0, 0.5)])
def test_the_logistic_curve_is_found_again(slope, intercept):
    random = np.random.default_rng(0)
    scores = random.uniform(-0.6, 0.8, size=20_000)
    right = random.uniform(size=20_000) < 1 / (1 + np.exp(-slope * scores - intercept))
    found = module._logistic(scores, right)
    assert found == pytest.approx((slope, intercept), rel=0.1)
    curve = replace(ANGULAR, slope=found[0], intercept=found[1])
    probability = curve.probability(scores.astype(np.float32))
    for low, high in ((0, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1.01)):
        bin_ = (probability >= low) & (probability < high)
        if bin_.sum() > 300:
            assert probability[bin_].mean() == pytest.approx(right[bin_].mean(), abs=0.04)


def test_separable_scores_give_a_finite_curve():
    found = calibrate(held_out_of(*blobs(spread=50.0)), MinOpenWorldError())
    assert found.quality == 1
    assert np.isfinite(found.slope)
    assert np.isfinite(found.intercept)


@pytest.mark.parametrize("n", [10, 1000])
def test_never_right_is_never_likely(n):
    slope, intercept = module._logistic(np.full(n, 0.9), np.zeros(n, dtype=bool))
    assert replace(ANGULAR, slope=slope, intercept=intercept).probability(np.float32([0.9]))[0] < 2 / n


def test_classes_of_the_same_samples_have_finite_noise():
    samples = np.random.default_rng(0).normal(size=(20, 40))
    found = calibrate(held_out_of(np.vstack([samples] * 2), np.repeat([0, 1], 20)), MinOpenWorldError())
    assert np.isfinite(found.noise)
    assert np.isfinite(found.threshold)
