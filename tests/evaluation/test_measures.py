import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score

from openworld.evaluation import measures
from openworld.evaluation.measures import (
    Decisions,
    closed_set_accuracy,
    forced_accuracy,
    harmonic_accuracy,
    known_recall,
    multi_class_error,
    normalized_accuracy,
    open_set_f1_macro,
    open_set_f1_micro,
    open_world_error,
    openness,
    pooled_accuracy,
    unknown_rejection_rate,
)

CLASSES = [0, 1, 2]
UNKNOWN = -1

DECISION_MEASURES = [
    multi_class_error,
    open_world_error,
    pooled_accuracy,
    closed_set_accuracy,
    unknown_rejection_rate,
    known_recall,
    open_set_f1_micro,
    open_set_f1_macro,
    normalized_accuracy,
    harmonic_accuracy,
]

# The hand-worked case. Known samples, N = 8:
#   true  0  0  0  0  1  1  1  2
#   pred  0  0  1  ?  1  1  2  ?      right: 2 of class 0, 2 of class 1: 4; rejected: 2
# Unknown samples, N' = 5:
#   pred  ?  ?  0  0  2               rejected: 2
Y_TRUE = [0, 0, 0, 0, 1, 1, 1, 2, 7, 7, 8, 8, 9]
Y_PRED = [0, 0, 1, -1, 1, 1, 2, -1, -1, -1, 0, 0, 2]


@pytest.fixture
def worked() -> Decisions:
    return Decisions.of(Y_TRUE, Y_PRED, CLASSES, UNKNOWN)


def test_errors_and_accuracies_by_hand(worked):
    assert multi_class_error(worked) == 4 / 8
    assert closed_set_accuracy(worked) == 4 / 8
    assert unknown_rejection_rate(worked) == 2 / 5
    assert open_world_error(worked) == pytest.approx(4 / 8 + 3 / 5)
    assert pooled_accuracy(worked) == (4 + 2) / 13
    assert known_recall(worked) == 6 / 8
    assert normalized_accuracy(worked) == pytest.approx(0.5 * 0.5 + 0.5 * 0.4)
    assert normalized_accuracy(worked, known_weight=0.8) == pytest.approx(0.8 * 0.5 + 0.2 * 0.4)
    assert harmonic_accuracy(worked) == pytest.approx(2 * 0.5 * 0.4 / 0.9)


def test_open_set_f1_by_hand(worked):
    # class   TP  decided for (TP + FP)      samples (TP + FN)   precision  recall
    #   0      2  2 known + 2 unknown = 4    4                   2/4        2/4
    #   1      2  3 known             = 3    3                   2/3        2/3
    #   2      0  1 known + 1 unknown = 2    1                   0          0
    # micro: P = 4/9, R = 4/8; F1 = 2 * 4 / (9 + 8)
    assert open_set_f1_micro(worked) == pytest.approx(8 / 17)
    # macro: P = R = (1/2 + 2/3) / 3 = 7/18, so F1 = 7/18
    assert open_set_f1_macro(worked) == pytest.approx(7 / 18)


def test_open_set_f1_macro_averages_before_it_combines():
    # class 0: TP 1, decided for 2, samples 1: P = 1/2, R = 1; class 1: TP 1, decided for 1, samples 2:
    # P = 1, R = 1/2. Mean P = mean R = 3/4, F1 = 3/4; the mean of the classes' F1 would be 2/3.
    decisions = Decisions.of([0, 1, 1], [0, 1, 0], [0, 1], UNKNOWN)
    assert open_set_f1_macro(decisions) == pytest.approx(3 / 4)


def test_open_set_f1_macro_leaves_out_classes_that_play_no_part():
    few = Decisions.of(Y_TRUE, Y_PRED, CLASSES, UNKNOWN)
    many = Decisions.of(Y_TRUE, Y_PRED, [*CLASSES, 50, 51], UNKNOWN)
    assert open_set_f1_macro(many) == open_set_f1_macro(few)


def test_forced_accuracy_by_hand(worked):
    # the two rejected known samples (classes 0 and 2) are forced to 0 and to 1: one more is right
    forced = Decisions.of(Y_TRUE, [0, 0, 1, 0, 1, 1, 2, 1, 0, 0, 0, 0, 2], CLASSES, UNKNOWN)
    assert forced_accuracy(forced) == 5 / 8
    with pytest.raises(ValueError, match="forced predictions"):
        forced_accuracy(worked)


def test_openness_by_hand():
    assert openness(50, 50) == 0.0
    # 1 - sqrt(2 * 2 / (2 + 6)) = 1 - sqrt(1/2)
    assert openness(2, 6) == pytest.approx(1 - math.sqrt(0.5))
    # 50 known, 100 unknown: 1 - sqrt(100 / 200)
    assert openness(50, 150) == pytest.approx(1 - math.sqrt(0.5))


@pytest.mark.parametrize("counts", [(0, 5), (5, 4)])
def test_openness_refuses_impossible_counts(counts):
    with pytest.raises(ValueError, match="n_training_classes <= n_test_classes"):
        openness(*counts)


def test_the_extremes():
    perfect = Decisions.of([0, 1, 9], [0, 1, UNKNOWN], [0, 1], UNKNOWN)
    worst = Decisions.of([0, 1, 9], [UNKNOWN, 0, 0], [0, 1], UNKNOWN)
    reject_all = Decisions.of([0, 1, 9], [UNKNOWN] * 3, [0, 1], UNKNOWN)
    for measure in DECISION_MEASURES:
        is_error = measure in (multi_class_error, open_world_error)
        assert measure(perfect) == (0.0 if is_error else 1.0), measure
    assert open_world_error(worst) == 2.0
    assert harmonic_accuracy(worst) == 0.0
    assert open_set_f1_micro(worst) == open_set_f1_macro(worst) == 0.0
    assert open_set_f1_micro(reject_all) == open_set_f1_macro(reject_all) == 0.0
    assert harmonic_accuracy(reject_all) == 0.0
    assert normalized_accuracy(reject_all) == 0.5


NEEDS_KNOWN = [m for m in DECISION_MEASURES if m not in (pooled_accuracy, unknown_rejection_rate)]
NEEDS_UNKNOWN = [open_world_error, unknown_rejection_rate, normalized_accuracy, harmonic_accuracy]


@pytest.mark.parametrize("measure", [*NEEDS_KNOWN, forced_accuracy])
def test_undefined_without_known_samples(measure):
    with pytest.raises(ValueError, match="without known test samples"):
        measure(Decisions.of([7, 8], [0, UNKNOWN], CLASSES, UNKNOWN))


@pytest.mark.parametrize("measure", NEEDS_UNKNOWN)
def test_undefined_without_unknown_samples(measure):
    with pytest.raises(ValueError, match="without unknown test samples"):
        measure(Decisions.of([0, 1], [0, UNKNOWN], CLASSES, UNKNOWN))


def test_closed_and_purely_unknown_tests_have_a_pooled_accuracy():
    assert pooled_accuracy(Decisions.of([0, 1], [0, UNKNOWN], CLASSES, UNKNOWN)) == 0.5
    assert pooled_accuracy(Decisions.of([7, 8], [0, UNKNOWN], CLASSES, UNKNOWN)) == 0.5


@pytest.mark.parametrize("known_weight", [0.0, 1.0, -0.1, math.nan])
def test_normalized_accuracy_refuses_weights_out_of_range(worked, known_weight):
    with pytest.raises(ValueError, match="known_weight"):
        normalized_accuracy(worked, known_weight)


# pairs of (true, decided): at least one known and one unknown sample; 3 and 4 are unknown classes
KNOWN_PAIRS = st.lists(st.tuples(st.sampled_from(CLASSES), st.sampled_from([*CLASSES, UNKNOWN])), min_size=1)
UNKNOWN_PAIRS = st.lists(st.tuples(st.sampled_from([3, 4]), st.sampled_from([*CLASSES, UNKNOWN])), min_size=1)


def naive_measures(known, unknown):
    """Every decision measure by plain loops."""
    right = accepted = caught = 0
    for true, pred in known:
        right += true == pred
        accepted += pred != UNKNOWN
    for _, pred in unknown:
        caught += pred == UNKNOWN
    precisions, recalls, sums = [], [], np.zeros(3)
    for c in CLASSES:
        tp = fp = fn = 0
        for true, pred in known + unknown:
            tp += true == c and pred == c
            fp += true != c and pred == c
            fn += true == c and pred != c
        sums += [tp, fp, fn]
        if tp + fp + fn:
            precisions.append(tp / (tp + fp) if tp + fp else 0.0)
            recalls.append(tp / (tp + fn) if tp + fn else 0.0)

    def f1(p, r):
        return 2 * p * r / (p + r) if p + r else 0.0

    tp, fp, fn = sums
    aks, aus = right / len(known), caught / len(unknown)
    return {
        multi_class_error: 1 - aks,
        open_world_error: (1 - aks) + (1 - aus),
        pooled_accuracy: (right + caught) / (len(known) + len(unknown)),
        closed_set_accuracy: aks,
        unknown_rejection_rate: aus,
        known_recall: accepted / len(known),
        open_set_f1_micro: f1(tp / (tp + fp) if tp + fp else 0.0, tp / (tp + fn)),
        open_set_f1_macro: f1(np.mean(precisions), np.mean(recalls)),
        normalized_accuracy: (aks + aus) / 2,
        harmonic_accuracy: f1(aks, aus),
    }


@settings(deadline=None)
@given(KNOWN_PAIRS, UNKNOWN_PAIRS)
def test_measures_are_those_of_plain_loops(known, unknown):
    y_true, y_pred = zip(*known, *unknown, strict=True)
    decisions = Decisions.of(y_true, y_pred, CLASSES, UNKNOWN)
    expected = naive_measures(known, unknown)
    assert set(expected) == set(DECISION_MEASURES)
    for measure, value in expected.items():
        assert measure(decisions) == pytest.approx(value, abs=1e-12), measure


@settings(deadline=None)
@given(KNOWN_PAIRS, UNKNOWN_PAIRS)
def test_measures_agree_with_scikit_learn(known, unknown):
    y_true, y_pred = map(np.array, zip(*known, *unknown, strict=True))
    decisions = Decisions.of(y_true, y_pred, CLASSES, UNKNOWN)
    y_true = np.where(y_true > 2, UNKNOWN, y_true)
    seen = np.intersect1d(CLASSES, np.concatenate([y_true, y_pred]))
    assert pooled_accuracy(decisions) == pytest.approx(accuracy_score(y_true, y_pred))
    micro = f1_score(y_true, y_pred, labels=CLASSES, average="micro", zero_division=0)
    assert open_set_f1_micro(decisions) == pytest.approx(micro)
    macro = {"labels": seen, "average": "macro", "zero_division": 0}
    precision, recall = precision_score(y_true, y_pred, **macro), recall_score(y_true, y_pred, **macro)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    assert open_set_f1_macro(decisions) == pytest.approx(f1)


@settings(deadline=None)
@given(KNOWN_PAIRS, UNKNOWN_PAIRS, st.randoms(use_true_random=False))
def test_order_of_samples_and_classes_does_not_matter(known, unknown, random):
    samples, classes = known + unknown, list(CLASSES)
    shuffled, shuffled_classes = samples.copy(), classes.copy()
    random.shuffle(shuffled)
    random.shuffle(shuffled_classes)
    before = Decisions.of(*zip(*samples, strict=True), classes, UNKNOWN)
    after = Decisions.of(*zip(*shuffled, strict=True), shuffled_classes, UNKNOWN)
    for measure in DECISION_MEASURES:
        assert measure(after) == pytest.approx(measure(before), abs=1e-15)


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.sampled_from(CLASSES)] * 2), min_size=1), st.integers(0, 40))
def test_who_never_rejects_pays_the_unknown_share_exactly(known, n_unknown):
    y_true, y_pred = map(list, zip(*known, strict=True))
    decisions = Decisions.of(y_true + [9] * n_unknown, y_pred + [1] * n_unknown, CLASSES, UNKNOWN)
    n = len(known)
    n_right = sum(true == pred for true, pred in known)
    assert closed_set_accuracy(decisions) == n_right / n
    assert pooled_accuracy(decisions) == float(Fraction(n_right, n) * Fraction(n, n + n_unknown))
    assert forced_accuracy(decisions) == closed_set_accuracy(decisions)
    assert known_recall(decisions) == 1.0


@pytest.mark.parametrize(
    ("n_unknown_classes", "published"), [(0, 20.56), (100, 6.8533), (200, 4.1120), (500, 1.8691)]
)
def test_published_pooled_accuracies_of_ncm(n_unknown_classes, published):
    # ILSVRC'10, K = 50: NCM never rejects; 150 test images per class, 20.56 % of 7,500 = 1,542 right
    n, n_unknown = 50 * 150, n_unknown_classes * 150
    y_true = np.concatenate([np.repeat(np.arange(50), 150), np.full(n_unknown, 999)])
    y_pred = np.where(np.arange(n + n_unknown) < 1542, y_true, (y_true + 1) % 50)
    decisions = Decisions.of(y_true, y_pred, np.arange(50), UNKNOWN)
    assert closed_set_accuracy(decisions) == 0.2056
    assert pooled_accuracy(decisions) * 100 == pytest.approx(published, abs=5e-5)


@settings(deadline=None)
@given(KNOWN_PAIRS, UNKNOWN_PAIRS)
def test_normalized_accuracy_is_the_open_world_error_turned_round(known, unknown):
    decisions = Decisions.of(*zip(*known, *unknown, strict=True), CLASSES, UNKNOWN)
    assert normalized_accuracy(decisions) == pytest.approx(1 - open_world_error(decisions) / 2)


def test_every_public_name_is_there():
    assert all(hasattr(measures, name) for name in measures.__all__)
