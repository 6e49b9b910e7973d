import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openworld.evaluation.measures import Scores, aupr, auroc, ccr_at_fpr, oscr_area, oscr_curve

# The hand-worked case, N = 5 known and N' = 4 unknown samples, with ties at 3 and at 1:
#   known    5 right, 3 right, 3 wrong, 2 wrong, 1 right
#   unknown  4, 3, 1, 1
KNOWN, CORRECT, UNKNOWN = [5, 3, 3, 2, 1], [True, True, False, False, True], [4, 3, 1, 1]


@pytest.fixture
def worked() -> Scores:
    return Scores.of(KNOWN, UNKNOWN, CORRECT)


def test_auroc_by_hand(worked):
    # pairs won by each known sample against 4, 3, 1, 1 (a tie is half):
    #   5: 4;  3: 2 + 1/2;  3: 2 + 1/2;  2: 2;  1: 2/2 = 1;  together 12 of 20
    assert auroc(worked) == pytest.approx(12 / 20)


def test_aupr_by_hand(worked):
    # t   known, unknown with score >= t   precision   recall gained
    # 5   1, 0                             1           1/5
    # 4   1, 1                             1/2         0
    # 3   3, 2                             3/5         2/5
    # 2   4, 2                             4/6         1/5
    # 1   5, 4                             5/9         1/5
    assert aupr(worked) == pytest.approx((1 + 2 * 3 / 5 + 4 / 6 + 5 / 9) / 5)


def test_oscr_curve_by_hand(worked):
    # t    right with score >= t   unknown with score >= t
    # inf  0                       0
    # 5    1                       0
    # 4    1                       1
    # 3    2                       2
    # 2    2                       2
    # 1    3                       4
    curve = oscr_curve(worked)
    assert curve.thresholds.tolist() == [math.inf, 5, 4, 3, 2, 1]
    np.testing.assert_allclose(curve.false_positive_rate, [0, 0, 1 / 4, 2 / 4, 2 / 4, 1])
    np.testing.assert_allclose(curve.correct_classification_rate, [0, 1 / 5, 1 / 5, 2 / 5, 2 / 5, 3 / 5])


def test_oscr_area_by_hand(worked):
    # trapezia over FPR: [0, 1/4] at 1/5; [1/4, 1/2] from 1/5 to 2/5; [1/2, 1] from 2/5 to 3/5:
    #   1/20 + 3/40 + 1/4 = 15/40. Pairs: right samples 5, 3, 1 win 4 + 2.5 + 1 = 7.5 of 5 * 4.
    assert oscr_area(worked) == pytest.approx(15 / 40)
    assert oscr_area(worked) == pytest.approx(7.5 / 20)


@pytest.mark.parametrize(
    ("false_positive_rate", "ccr"),
    [(0.0, 1 / 5), (0.24, 1 / 5), (0.25, 1 / 5), (0.49, 1 / 5), (0.5, 2 / 5), (0.99, 2 / 5), (1.0, 3 / 5)],
)
def test_ccr_at_fpr_by_hand(worked, false_positive_rate, ccr):
    assert ccr_at_fpr(worked, false_positive_rate) == ccr


def test_ccr_at_fpr_is_0_when_an_unknown_sample_scores_highest():
    assert ccr_at_fpr(Scores.of([1, 2], [2, 0], [True, True]), 0.0) == 0.0


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]])
def test_all_scores_tied(order):
    # the curve has two points, (0, 0) and (1, accuracy) with accuracy 3/5: the triangle's area is 3/10
    tied = Scores.of(np.ones(5), np.ones(3), np.array(CORRECT)[order])
    assert oscr_area(tied) == 3 / 10
    assert auroc(tied) == 0.5
    assert aupr(tied) == pytest.approx(5 / 8)


def test_perfectly_separated():
    separated = Scores.of([7, 8, 9, 7, 7], [1, 2, 3], CORRECT)
    assert oscr_area(separated) == 3 / 5  # the closed-set accuracy
    assert ccr_at_fpr(separated, 0.0) == 3 / 5
    assert auroc(separated) == aupr(separated) == 1.0
    upside_down = Scores.of([1, 2, 3, 1, 1], [7, 8, 9], CORRECT)
    assert oscr_area(upside_down) == auroc(upside_down) == 0.0


def test_minus_infinity_ranks_lowest():
    far = Scores.of([1.0, -np.inf], [0.0, -np.inf], [True, True])
    near = Scores.of([1.0, -5.0], [0.0, -5.0], [True, True])
    for measure in (auroc, aupr, oscr_area):
        assert measure(far) == measure(near)


@pytest.mark.parametrize(
    ("known", "unknown", "correct", "message"),
    [
        ([], [1], np.zeros(0, dtype=bool), "known_score must be one-dimensional and not empty"),
        ([1], [], [True], "unknown_score must be one-dimensional and not empty"),
        ([[1]], [1], [[True]], "known_score must be one-dimensional"),
        ([np.nan], [1], [True], "known_score must not hold NaN"),
        ([1], [np.inf], [True], "unknown_score must not hold NaN or plus infinity"),
        ([1], [1], [1], "known_correct must be bool"),
        ([1, 2], [1], [True], r"known_correct must be bool of shape \(2,\)"),
    ],
)
def test_of_refuses_misuse(known, unknown, correct, message):
    with pytest.raises(ValueError, match=message):
        Scores.of(known, unknown, correct)


@pytest.mark.parametrize("false_positive_rate", [-0.1, 1.1, math.nan])
def test_ccr_at_fpr_refuses_rates_out_of_range(worked, false_positive_rate):
    with pytest.raises(ValueError, match="false_positive_rate"):
        ccr_at_fpr(worked, false_positive_rate)


# few distinct scores, so most of them tie; each known sample is (score, correct)
SCORE = st.integers(0, 4)
KNOWN_SAMPLES = st.lists(st.tuples(SCORE, st.booleans()), min_size=1, max_size=30)
UNKNOWN_SAMPLES = st.lists(SCORE, min_size=1, max_size=30)


def scores_of(known, unknown):
    score, correct = zip(*known, strict=True)
    return Scores.of(score, unknown, correct)


@settings(deadline=None)
@given(KNOWN_SAMPLES, UNKNOWN_SAMPLES)
def test_areas_are_those_of_counting_pairs(known, unknown):
    won = won_and_right = 0.0
    for score, correct in known:
        for other in unknown:
            point = 1.0 if score > other else 0.5 if score == other else 0.0
            won += point
            won_and_right += point * correct
    scores = scores_of(known, unknown)
    n_pairs = len(known) * len(unknown)
    assert auroc(scores) == pytest.approx(won / n_pairs, abs=1e-12)
    assert oscr_area(scores) == pytest.approx(won_and_right / n_pairs, abs=1e-12)


@settings(deadline=None)
@given(KNOWN_SAMPLES, UNKNOWN_SAMPLES)
def test_curve_and_its_area_are_those_of_trying_every_threshold(known, unknown):
    points = []
    for t in [math.inf, *range(4, -1, -1)]:
        fpr = sum(score >= t for score in unknown) / len(unknown)
        ccr = sum(correct and score >= t for score, correct in known) / len(known)
        points.append((fpr, ccr))
    scores = scores_of(known, unknown)
    curve = oscr_curve(scores)
    rates = set(zip(curve.false_positive_rate, curve.correct_classification_rate, strict=True))
    assert rates == set(points)
    fpr, ccr = zip(*points, strict=True)
    assert oscr_area(scores) == pytest.approx(np.trapezoid(ccr, fpr), abs=1e-12)
    for allowed in [0.0, 0.05, 0.1, 0.5, 1.0, *fpr]:
        assert ccr_at_fpr(scores, allowed) == max(c for f, c in points if f <= allowed)


@settings(deadline=None)
@given(KNOWN_SAMPLES, UNKNOWN_SAMPLES)
def test_aupr_is_that_of_trying_every_threshold(known, unknown):
    area = recall_before = 0.0
    for t in range(4, -1, -1):
        n_known = sum(score >= t for score, _ in known)
        n_unknown = sum(score >= t for score in unknown)
        recall = n_known / len(known)
        if n_known:
            area += (recall - recall_before) * n_known / (n_known + n_unknown)
        recall_before = recall
    assert aupr(scores_of(known, unknown)) == pytest.approx(area, abs=1e-12)


@settings(deadline=None)
@given(KNOWN_SAMPLES, UNKNOWN_SAMPLES, st.randoms(use_true_random=False))
def test_only_the_ranking_matters(known, unknown, random):
    shuffled, shuffled_unknown = known.copy(), unknown.copy()
    random.shuffle(shuffled)
    random.shuffle(shuffled_unknown)
    warped = [(math.exp(score), correct) for score, correct in shuffled]
    before = scores_of(known, unknown)
    after = scores_of(warped, [math.exp(score) for score in shuffled_unknown])
    for measure in (auroc, aupr, oscr_area, lambda scores: ccr_at_fpr(scores, 0.3)):
        assert measure(after) == pytest.approx(measure(before), abs=1e-12)
