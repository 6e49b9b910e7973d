import math

import numpy as np
import pytest

from openworld.evaluation.measures import (
    Decisions,
    Scores,
    aupr,
    auroc,
    bootstrap_interval,
    ccr_at_fpr,
    closed_set_accuracy,
    fold_interval,
    harmonic_accuracy,
    open_set_f1_macro,
    open_set_f1_micro,
    open_world_error,
    oscr_area,
    pooled_accuracy,
    unknown_rejection_rate,
)


def random_decisions(rng, n=300, n_unknown=200, accuracy=0.7, rejected=0.6) -> Decisions:
    """Known samples are right with probability `accuracy`, unknown ones rejected with `rejected`."""
    true = rng.integers(5, size=n)
    pred = np.where(rng.random(n) < accuracy, true, (true + 1) % 5)
    unknown_pred = np.where(rng.random(n_unknown) < rejected, -1, rng.integers(5, size=n_unknown))
    return Decisions.of(
        np.concatenate([true, np.full(n_unknown, 9)]), np.concatenate([pred, unknown_pred]), range(5), -1
    )


def random_scores(rng, n=300, n_unknown=200, accuracy=0.7) -> Scores:
    known, unknown = rng.normal(1.0, size=n), rng.normal(size=n_unknown)
    return Scores.of(known, unknown, rng.random(n) < accuracy)


@pytest.mark.parametrize(
    "measure",
    [
        pooled_accuracy,
        closed_set_accuracy,
        unknown_rejection_rate,
        open_world_error,
        open_set_f1_micro,
        open_set_f1_macro,
        harmonic_accuracy,
    ],
)
def test_interval_of_decisions_holds_the_estimate(measure):
    decisions = random_decisions(np.random.default_rng(0))
    interval = bootstrap_interval(measure, decisions, random_state=0)
    assert interval.estimate == measure(decisions)
    assert interval.low < interval.estimate < interval.high


@pytest.mark.parametrize("measure", [auroc, aupr, oscr_area, lambda scores: ccr_at_fpr(scores, 0.2)])
def test_interval_of_scores_holds_the_estimate(measure):
    scores = random_scores(np.random.default_rng(0))
    interval = bootstrap_interval(measure, scores, random_state=0)
    assert interval.estimate == measure(scores)
    assert interval.low < interval.estimate < interval.high


def test_the_seed_decides():
    decisions = random_decisions(np.random.default_rng(0))

    def interval(random_state):
        return bootstrap_interval(pooled_accuracy, decisions, n_resamples=50, random_state=random_state)

    assert interval(3) == interval(3) == interval(np.random.default_rng(3))
    assert interval(3) != interval(4)


def test_bootstrap_width_is_that_of_the_binomial():
    # 700 of 1000 right: the standard error is sqrt(.7 * .3 / 1000) = .01449, the 95 % interval 3.92 times
    decisions = Decisions.of(np.zeros(1000), np.repeat([0, -1], [700, 300]), [0], -1)
    interval = bootstrap_interval(closed_set_accuracy, decisions, n_resamples=4000, random_state=0)
    assert interval.high - interval.low == pytest.approx(3.92 * math.sqrt(0.7 * 0.3 / 1000), rel=0.05)


def test_more_confidence_is_a_wider_interval():
    scores = random_scores(np.random.default_rng(0))
    narrow = bootstrap_interval(auroc, scores, confidence=0.5, random_state=0)
    wide = bootstrap_interval(auroc, scores, confidence=0.99, random_state=0)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_nothing_to_doubt_is_an_interval_of_width_0():
    decisions = Decisions.of([0, 0, 9], [0, 0, -1], [0], -1)
    assert bootstrap_interval(pooled_accuracy, decisions, n_resamples=20, random_state=0) == (1.0, 1.0, 1.0)


def test_a_closed_test_has_an_interval():
    decisions = Decisions.of([0, 1, 0, 1], [0, 0, 0, 1], [0, 1], -1)
    interval = bootstrap_interval(pooled_accuracy, decisions, n_resamples=200, random_state=0)
    assert interval.low < interval.estimate == 0.75 < interval.high


def test_bootstrap_intervals_cover_the_truth():
    rng = np.random.default_rng(0)
    # N = 120, N' = 80: the truth is (.7 * 120 + .6 * 80) / 200 = .66
    covered = 0
    for _ in range(200):
        decisions = random_decisions(rng, n=120, n_unknown=80)
        interval = bootstrap_interval(pooled_accuracy, decisions, n_resamples=200, random_state=rng)
        covered += interval.low <= 0.66 <= interval.high
    assert 0.88 <= covered / 200 <= 0.99


def test_bootstrap_intervals_of_the_oscr_area_cover_the_truth():
    rng = np.random.default_rng(0)
    # P(correct) P(s > s') = .7 * Phi(1 / sqrt(2))
    truth = 0.7 * 0.5 * (1 + math.erf(0.5))
    covered = 0
    for _ in range(200):
        scores = random_scores(rng, n=120, n_unknown=80)
        interval = bootstrap_interval(oscr_area, scores, n_resamples=200, random_state=rng)
        covered += interval.low <= truth <= interval.high
    assert 0.88 <= covered / 200 <= 0.99


def test_fold_interval_by_hand():
    # mean 2, deviation 1 (n - 1), t(.975; 2) = 4.302653: 2 ± 4.302653 / sqrt(3)
    interval = fold_interval([1.0, 2.0, 3.0])
    assert interval.estimate == 2.0
    assert interval.low == pytest.approx(2 - 4.302653 / math.sqrt(3), abs=1e-6)
    assert interval.high == pytest.approx(2 + 4.302653 / math.sqrt(3), abs=1e-6)
    assert fold_interval([0.5, 0.5]) == (0.5, 0.5, 0.5)


def test_fold_intervals_cover_the_truth():
    rng = np.random.default_rng(0)
    intervals = [fold_interval(rng.normal(0.4, 0.05, size=5), confidence=0.9) for _ in range(1000)]
    covered = np.mean([interval.low <= 0.4 <= interval.high for interval in intervals])
    assert covered == pytest.approx(0.9, abs=0.03)


@pytest.mark.parametrize("values", [[0.5], [], [[0.1, 0.2]], [0.1, np.nan]])
def test_fold_interval_refuses_what_it_cannot_use(values):
    with pytest.raises(ValueError, match="values must be"):
        fold_interval(values)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95])
def test_confidence_is_checked(confidence):
    decisions = Decisions.of([0, 9], [0, -1], [0], -1)
    with pytest.raises(ValueError, match="confidence"):
        bootstrap_interval(pooled_accuracy, decisions, confidence=confidence, random_state=0)
    with pytest.raises(ValueError, match="confidence"):
        fold_interval([0.1, 0.2], confidence)


def test_bootstrap_refuses_what_it_cannot_do():
    closed = Decisions.of([0, 0], [0, -1], [0], -1)
    with pytest.raises(ValueError, match="n_resamples"):
        bootstrap_interval(pooled_accuracy, closed, n_resamples=0, random_state=0)
    with pytest.raises(ValueError, match="without unknown test samples"):
        bootstrap_interval(open_world_error, closed, random_state=0)
