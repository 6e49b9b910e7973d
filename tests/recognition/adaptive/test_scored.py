"""Threshold, OSCR area and probabilities of held-out samples, against brute force."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import hadamard

from openworld import F1, FalseAcceptRate, KnownRecall, MinOpenWorldError
from openworld.evaluation.score_measures import Scores
from openworld.evaluation.score_measures import oscr_area as measured_oscr_area
from openworld.recognition.adaptive.score import ScoreCalibration
from openworld.recognition.adaptive.scored import (
    N_HALVES,
    Scored,
    accepting_most,
    average_threshold,
    logistic,
    oscr_area,
)
from openworld.recognition.threshold import best_threshold

OBJECTIVES = [F1(0.9), F1(0.0), FalseAcceptRate(0.1), KnownRecall(0.8), MinOpenWorldError()]
ANGULAR = ScoreCalibration(by_distance=False, weight=0.5, runner_up=0.0, noise=6.0, typical=0.4)


def test_in_a_wide_gap_the_threshold_stays_near_the_known_samples():
    """Of two classes the other may be far away; that says little about unknown ones."""
    random = np.random.default_rng(0)
    scored = Scored(random.normal(size=40), np.ones(40, dtype=bool), random.normal(size=40) - 1000)
    threshold, _ = average_threshold(scored, np.repeat([0, 1], 20), MinOpenWorldError())
    assert scored.known.min() - 1 < threshold < np.quantile(scored.known, 0.1)


def test_samples_from_afar_do_not_lower_the_threshold_of_few_classes():
    random = np.random.default_rng(0)
    known = np.r_[random.normal(size=90), np.full(10, -1e6)]
    scored = Scored(known, np.ones(100, dtype=bool), random.normal(size=100))
    assert -5 < accepting_most(scored) < -1


@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
@pytest.mark.parametrize("seed", range(4))
def test_the_threshold_is_the_average_of_the_best_for_balanced_halves_of_the_classes(objective, seed):
    random = np.random.default_rng(seed)
    codes = np.repeat(np.arange(200), 3)
    known = random.normal(size=600) + random.normal(size=200)[codes]
    scored = Scored(known + 1, random.random(600) < 0.9, random.normal(size=600))
    found, optimism = average_threshold(scored, codes, objective)
    assert -0.02 < optimism < 0.05
    means = np.array([scored.known[codes == c].mean() for c in range(200)])
    columns = 1 + means.argsort().argsort()[codes] % (N_HALVES - 1)
    thresholds = []
    for row in hadamard(N_HALVES):
        half = row[columns] > 0
        part = (-scored.known[half], -scored.unknown[half], objective, scored.right[half])
        thresholds.append(-best_threshold(*part)[0])
    assert found == pytest.approx(np.mean(thresholds), abs=0.02)


def test_of_classes_that_are_all_alike_the_threshold_is_the_best_there_is():
    known, unknown = np.tile([0.9, 0.7, 0.2], 40), np.tile([0.1, 0.3, 0.5], 40)
    scored = Scored(known, np.ones(120, dtype=bool), unknown)
    found, optimism = average_threshold(scored, np.repeat(np.arange(40), 3), F1(0.0))
    assert found == pytest.approx(-best_threshold(-known, -unknown, F1(0.0))[0])
    assert optimism == pytest.approx(0, abs=0.05)


def test_optimism_is_what_a_threshold_loses_on_classes_that_did_not_choose_it():
    """Scores that say nothing: whatever threshold looks best on one half is worth nothing on the other."""
    random = np.random.default_rng(0)
    found = []
    for _ in range(50):
        scored = Scored(random.normal(size=20), np.ones(20, dtype=bool), random.normal(size=20))
        threshold, optimism = average_threshold(scored, np.arange(20), MinOpenWorldError())
        found.append((scored.error(threshold), optimism))
    error, optimism = np.mean(found, axis=0)
    assert error < 0.95
    assert error + optimism == pytest.approx(1, abs=0.1)


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


def test_probability_rises_even_where_the_samples_say_otherwise():
    scores = np.linspace(0, 1, 50)
    slope, _ = logistic(scores, scores < 0.5)
    assert slope > 0


@pytest.mark.parametrize(("slope", "intercept"), [(8.0, -2.0), (30.0, 3.0), (2.0, 0.5)])
def test_the_logistic_curve_is_found_again(slope, intercept):
    random = np.random.default_rng(0)
    scores = random.uniform(-0.6, 0.8, size=20_000)
    right = random.uniform(size=20_000) < 1 / (1 + np.exp(-slope * scores - intercept))
    found = logistic(scores, right)
    assert found == pytest.approx((slope, intercept), rel=0.1)
    curve = replace(ANGULAR, slope=found[0], intercept=found[1])
    probability = curve.probability(scores.astype(np.float32))
    for low, high in ((0, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1.01)):
        bin_ = (probability >= low) & (probability < high)
        if bin_.sum() > 300:
            assert probability[bin_].mean() == pytest.approx(right[bin_].mean(), abs=0.04)


@pytest.mark.parametrize("n", [10, 1000])
def test_never_right_is_never_likely(n):
    slope, intercept = logistic(np.full(n, 0.9), np.zeros(n, dtype=bool))
    assert replace(ANGULAR, slope=slope, intercept=intercept).probability(np.float32([0.9]))[0] < 2 / n
