import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from openworld.recognition.threshold import (
    F1,
    Calibration,
    CrossClassValidation,
    FalseAcceptRate,
    KnownRecall,
    MinOpenWorldError,
    best_threshold,
    parse_objective,
)

# -- the optimum, by trying every cut with exact fractions ---------------------------------------------

SHARES = ["0", "0.05", "0.29", "0.5", "0.55", "0.56", "0.9", "0.95", "1"]


def exact_value(objective, share, k, u, n_known, n_unknown):
    """The objective's value from its definition; None where its constraint is broken."""
    if objective is F1:
        return Fraction(2 * k, k + u + n_known) if Fraction(k, n_known) >= share else None
    if objective is FalseAcceptRate:
        return Fraction(k) if Fraction(u, n_unknown) <= share else None
    return Fraction(-u) if Fraction(k, n_known) >= share else None


def best_cut(objective, share, known, unknown):
    """The best value, and the fewest samples (k, u) that a rule `accept d < t` reaches it with."""
    best = None
    for t in [*sorted({*known, *unknown}), math.inf]:
        k, u = sum(d < t for d in known), sum(d < t for d in unknown)
        value = exact_value(objective, Fraction(share), k, u, len(known), len(unknown))
        if value is not None and (best is None or value > best[0]):
            best = value, k, u
    return best


values = st.lists(st.integers(0, 6), min_size=1, max_size=20)
objectives = st.tuples(st.sampled_from([F1, FalseAcceptRate, KnownRecall]), st.sampled_from(SHARES))


@settings(max_examples=500)
@given(known=values, unknown=values, objective=objectives)
def test_is_the_exact_optimum_that_accepts_least(known, unknown, objective):
    kind, share = objective
    value, k, u = best_cut(kind, share, known, unknown)
    threshold, found = best_threshold(known, unknown, kind(float(share)))
    assert found == float(value)
    assert (np.sum(np.array(known) < threshold), np.sum(np.array(unknown) < threshold)) == (k, u)


@given(known=st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=20), unknown=values)
def test_the_open_world_error_is_smallest_by_brute_force(known, unknown):
    def error(threshold):
        named_right = sum(right and d < threshold for d, right in known)
        return (
            1
            - Fraction(named_right, len(known))
            + Fraction(sum(d < threshold for d in unknown), len(unknown))
        )

    distances, right = zip(*known, strict=True)
    threshold, value = best_threshold(distances, unknown, MinOpenWorldError(), right)
    smallest = min(error(t) for t in [*distances, *unknown, math.inf])
    assert error(threshold) == smallest
    assert value == pytest.approx(float(1 - smallest))


def test_other_objectives_count_every_known_sample():
    known, unknown, right = [1, 2, 3], [4, 5], [False, False, False]
    assert best_threshold(known, unknown, F1(0.9), right) == best_threshold(known, unknown, F1(0.9))
    # Nothing is named right, so nothing is worth accepting.
    assert best_threshold(known, unknown, MinOpenWorldError(), right) == (4.0, 0.0)


@settings(max_examples=200)
@given(
    n=st.integers(1, 200),
    share=st.integers(0, 100),
    gap=st.integers(0, 3),
)
def test_a_share_reached_exactly_is_reached(n, share, gap):
    """0.55 * 20 is 11.000000000000002, yet 11 of 20 are 55 %."""
    known = np.arange(n, dtype=float)
    needed = -(-share * n // 100)
    threshold, _ = best_threshold(known, [gap + n], KnownRecall(share / 100))
    assert np.sum(known < threshold) == needed
    allowed = share * n // 100
    threshold, value = best_threshold([n + 1.0], known, FalseAcceptRate(share / 100))
    assert np.sum(known < threshold) <= allowed
    assert value == (1 if allowed == n else 0)
    threshold, _ = best_threshold(known, known - 0.5, F1(share / 100))
    assert Fraction(int(np.sum(known < threshold)), n) >= Fraction(share, 100)


@given(known=values, unknown=values, objective=objectives, seed=st.integers(0, 99))
def test_does_not_depend_on_the_order(known, unknown, objective, seed):
    rng = np.random.default_rng(seed)
    kind, share = objective
    here = best_threshold(known, unknown, kind(float(share)))
    assert best_threshold(rng.permutation(known), rng.permutation(unknown), kind(float(share))) == here


@given(
    known=st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=10),
    unknown=st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=10),
    objective=objectives,
)
def test_any_floats(known, unknown, objective):
    kind, share = objective
    value, k, u = best_cut(kind, share, known, unknown)
    threshold, found = best_threshold(known, unknown, kind(float(share)))
    assert np.isfinite(threshold)
    assert found == float(value)
    assert (np.sum(np.array(known) < threshold), np.sum(np.array(unknown) < threshold)) == (k, u)


@pytest.mark.parametrize("start", [1.0, -1.0, 0.0, 5e-324, 1e300, 0.1, np.finfo(float).max / 2])
@pytest.mark.parametrize("known_first", [True, False])
def test_neighboring_floats_are_distinguished(start, known_first):
    following = np.nextafter(start, np.inf)
    known, unknown = ([start], [following]) if known_first else ([following], [start])
    threshold, value = best_threshold(known, unknown, F1(min_recall=0.5))
    assert known[0] < threshold
    assert (unknown[0] < threshold) == (not known_first)
    assert value == (1.0 if known_first else 2 / 3)
    threshold, value = best_threshold(known, unknown, FalseAcceptRate(0))
    assert threshold <= unknown[0]
    assert value == known_first


def test_the_largest_values_do_not_overflow():
    largest = np.finfo(float).max
    threshold, value = best_threshold([-largest], [largest], F1())
    assert (threshold, value) == (0.0, 1.0)


def test_by_hand():
    known, unknown = [1, 2, 3, 9], [4, 5, 8, 10]
    assert best_threshold(known, unknown, F1(min_recall=0)) == (3.5, 6 / 7)  # k = 3, u = 0
    assert best_threshold(known, unknown, F1(min_recall=0.75)) == (3.5, 6 / 7)
    assert best_threshold(known, unknown, F1(min_recall=0.9)) == (9.5, 8 / 11)  # k = 4, u = 3
    assert best_threshold(known, unknown, FalseAcceptRate(0.05)) == (3.5, 3)
    assert best_threshold(known, unknown, FalseAcceptRate(0.75)) == (9.5, 4)
    assert best_threshold(known, unknown, KnownRecall(0.95)) == (9.5, -3)
    assert best_threshold(known, unknown, KnownRecall(0.5)) == (2.5, 0)


def test_the_defaults_are_those_of_the_authors():
    assert F1().min_recall == 0.9
    validation = CrossClassValidation()
    assert validation.objective == F1(min_recall=0.9)
    assert (validation.n_folds, validation.known_fraction) == (3, 0.66)


def test_accepting_nothing_or_everything():
    threshold, value = best_threshold([5, 6], [1, 2], FalseAcceptRate(0.1))
    assert value == 0
    assert threshold <= 1
    threshold, value = best_threshold([1, 6], [1, 2], KnownRecall(1))
    assert value == -2
    assert 6 < threshold < 6 + 1e-9


def test_an_objective_of_ones_own():
    @dataclass
    class Accuracy:
        def value(self, known, unknown, n_known, n_unknown):
            assert np.all(np.diff(known) >= 0)
            assert np.all(np.diff(unknown) >= 0)
            assert (known[0], unknown[0], known[-1], unknown[-1]) == (0, 0, n_known, n_unknown)
            return (known + n_unknown - unknown) / (n_known + n_unknown)

    assert best_threshold([1, 2, 3, 9], [4, 5, 8, 10, 11], Accuracy()) == (3.5, 8 / 9)


@pytest.mark.parametrize(("known", "unknown"), [([], [1.0]), ([1.0], []), ([], [])])
def test_both_sides_need_a_sample(known, unknown):
    with pytest.raises(ValueError, match="at least one known and one unknown"):
        best_threshold(known, unknown, F1())


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(bad):
    with pytest.raises(ValueError, match="NaN or infinite"):
        best_threshold([1, bad], [2], F1())
    with pytest.raises(ValueError, match="NaN or infinite"):
        best_threshold([1], [bad, 2], F1())


@pytest.mark.parametrize("objective", [F1(1.5), KnownRecall(1.5), FalseAcceptRate(-0.1)])
def test_what_no_threshold_reaches_is_refused(objective):
    with pytest.raises(ValueError, match="No threshold satisfies"):
        best_threshold([1, 2], [3, 4], objective)


def test_the_samples_given_are_not_changed():
    known, unknown = np.array([3.0, 1.0]), np.array([4.0, 2.0])
    best_threshold(known, unknown, F1())
    assert known.tolist() == [3, 1]
    assert unknown.tolist() == [4, 2]


# -- held out samples -------------------------------------------------------------------------------


@given(
    counts=st.lists(st.integers(0, 30), min_size=1, max_size=8),
    fraction=st.sampled_from([0.01, 0.07, 0.28, 0.3, 0.5, 0.99]),
    seed=st.integers(0, 99),
)
def test_a_share_of_each_class_is_held_out(counts, fraction, seed):
    assume(sum(counts))
    codes = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    validation = CrossClassValidation(validation_fraction=fraction, random_state=seed)
    held = validation.held_out(codes)
    assert held.shape == codes.shape
    assert held.dtype == bool
    share = Fraction(str(fraction))
    for code, count in enumerate(counts):
        wanted = max(0, min(math.ceil(share * count), count - 1))
        assert held[codes == code].sum() == wanted
    np.testing.assert_array_equal(validation.held_out(codes), held)
    np.testing.assert_array_equal(clone(validation).held_out(codes), held)


def test_no_sample_more_than_asked_for_is_held_out():
    # 0.07 * 100 is 7.000000000000001 and 0.28 * 25 likewise.
    codes = np.zeros(100, dtype=np.intp)
    assert CrossClassValidation(validation_fraction=0.07).held_out(codes).sum() == 7
    assert CrossClassValidation(validation_fraction=0.28).held_out(codes[:25]).sum() == 7


def test_held_out_samples_are_drawn_at_random():
    codes = np.repeat([0, 1], 50)
    draws = [
        CrossClassValidation(validation_fraction=0.3, random_state=seed).held_out(codes)
        for seed in range(200)
    ]
    assert len({tuple(draw) for draw in draws}) == 200
    # Each sample is drawn in 30 % of the draws: 60 of 200, give or take 6.5; five deviations either way.
    assert np.all(np.abs(np.sum(draws, axis=0) - 60) < 33)


def test_a_random_state_is_used_as_given():
    codes = np.repeat([0, 1], 20)
    state = np.random.RandomState(3)
    validation = CrossClassValidation(random_state=state)
    first, second = validation.held_out(codes), validation.held_out(codes)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(
        CrossClassValidation(random_state=np.random.RandomState(3)).held_out(codes), first
    )


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5, np.nan])
def test_bad_validation_fractions_are_refused(fraction):
    with pytest.raises(ValueError, match="validation_fraction"):
        CrossClassValidation(validation_fraction=fraction).held_out(np.array([0, 0, 1, 1]))


# -- folds --------------------------------------------------------------------------------------------


class Recorder:
    """Outlyingness that depends on the fold, and remembers what it was asked."""

    def __init__(self, codes, seed=0):
        self.codes = codes
        self.rng = np.random.default_rng(seed)
        self.masks, self.answers = [], []

    def __call__(self, is_known):
        self.masks.append(is_known.copy())
        least = self.rng.uniform(size=len(self.codes)) + 0.5 * ~is_known[self.codes]
        self.answers.append(least)
        outlying = np.repeat(least[:, np.newaxis] + 1, is_known.sum(), axis=1)
        named = self.rng.integers(is_known.sum(), size=len(least))
        outlying[np.arange(len(least)), named] = least
        return outlying


@given(
    n_classes=st.integers(2, 12),
    known_fraction=st.sampled_from([0.01, 0.3, 0.5, 0.66, 0.99]),
    n_folds=st.integers(1, 5),
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_folds(n_classes, known_fraction, n_folds, seed, data):
    judged = sorted(
        data.draw(st.sets(st.integers(0, n_classes - 1), min_size=2, max_size=n_classes), label="judged")
    )
    codes = np.random.default_rng(seed).permutation(np.repeat(judged, 4))
    validation = CrossClassValidation(
        F1(0.5), n_folds=n_folds, known_fraction=known_fraction, random_state=seed
    )
    recorder = Recorder(codes, seed)
    found = validation.find(recorder, codes, n_classes)

    n_known = min(max(round(known_fraction * len(judged)), 1), len(judged) - 1)
    assert len(recorder.masks) == n_folds
    for mask in recorder.masks:
        assert mask.shape == (n_classes,)
        assert mask.dtype == bool
        assert 1 <= mask[judged].sum() == n_known <= len(judged) - 1
        assert np.all(np.delete(mask, judged))  # classes that are not judged stay known

    # Every fold against its own samples, and tau as the average.
    assert len(found.fold_taus) == len(found.fold_values) == n_folds
    assert len(found.fold_known_accepted) == len(found.fold_unknown_rejected) == n_folds
    for fold, (mask, outlying) in enumerate(zip(recorder.masks, recorder.answers, strict=True)):
        is_known = np.array([mask[code] for code in codes])
        known, unknown = outlying[is_known], outlying[~is_known]
        tau, value = best_threshold(known, unknown, F1(0.5))
        assert found.fold_taus[fold] == tau
        assert found.fold_values[fold] == value
        assert found.fold_known_accepted[fold] == np.sum(known < tau) / len(known) >= 0.5
        assert found.fold_unknown_rejected[fold] == np.sum(unknown >= tau) / len(unknown)
    assert found.tau == pytest.approx(sum(found.fold_taus) / n_folds, rel=1e-12)
    assert found.deviation == pytest.approx(np.std(found.fold_taus), rel=1e-12)

    again = Recorder(codes, seed)
    assert validation.find(again, codes, n_classes) == found
    np.testing.assert_array_equal(again.masks, recorder.masks)


def test_which_classes_play_unknown_is_drawn_again_for_every_fold():
    codes = np.repeat(np.arange(10), 3)
    recorder = Recorder(codes)
    CrossClassValidation(n_folds=300, known_fraction=0.66).find(recorder, codes, 10)
    unknown = ~np.array(recorder.masks)
    assert np.all(unknown.sum(axis=1) == 3)  # round(6.6) = 7 stay known
    assert len({tuple(mask) for mask in recorder.masks}) > 50
    # Each class plays unknown in 30 % of the folds: 90 of 300, give or take 8.
    assert np.all(np.abs(unknown.sum(axis=0) - 90) < 40)
    other = Recorder(codes)
    CrossClassValidation(n_folds=300, random_state=1).find(other, codes, 10)
    assert not np.array_equal(other.masks, recorder.masks)


def test_calibration_by_hand():
    # Whichever class plays unknown: known samples at 1, 2, 3, 9 and unknown ones at 4, 5, 8, 10,
    # ten times as far in the second fold.
    codes = np.repeat([0, 1], 4)
    scales = iter([1.0, 10.0])

    def outlyingness(is_known):
        known, unknown = [1, 2, 3, 9], [4, 5, 8, 10]
        outlying = np.array(known + unknown if is_known[0] else unknown + known, dtype=float)
        return next(scales) * outlying[:, np.newaxis]  # from the one class that is known

    found = CrossClassValidation(F1(min_recall=0.9), n_folds=2).find(outlyingness, codes, 2)
    assert found == Calibration(
        tau=52.25,
        fold_taus=(9.5, 95.0),
        fold_values=(8 / 11, 8 / 11),
        fold_known_accepted=(1.0, 1.0),
        fold_unknown_rejected=(0.25, 0.25),
    )
    assert found.deviation == 42.75
    scales = iter([1.0])
    found = CrossClassValidation(F1(min_recall=0), n_folds=1).find(outlyingness, codes, 2)
    assert found == Calibration(3.5, (3.5,), (6 / 7,), (0.75,), (1.0,))
    assert found.deviation == 0


@pytest.mark.parametrize("objective", [FalseAcceptRate(0.25), KnownRecall(0.8), F1(0.8)])
def test_the_objective_is_kept_in_every_fold(objective):
    codes = np.repeat(np.arange(8), 20)
    found = CrossClassValidation(objective, n_folds=20).find(Recorder(codes), codes, 8)
    if isinstance(objective, FalseAcceptRate):
        assert min(found.fold_unknown_rejected) >= 0.75
    else:
        assert min(found.fold_known_accepted) >= 0.8


@pytest.mark.parametrize("codes", [[], [0], [1, 1, 1]])
def test_two_judged_classes_are_needed(codes):
    with pytest.raises(ValueError, match=f"at least 2 classes .* got {len(set(codes))} such"):
        CrossClassValidation().find(
            lambda known: np.zeros((len(codes), 5)), np.array(codes, dtype=np.intp), 5
        )


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_folds": 0},
        {"n_folds": -1},
        {"known_fraction": 0},
        {"known_fraction": 1},
        {"known_fraction": np.nan},
    ],
)
def test_bad_parameters_are_refused(parameters):
    codes = np.array([0, 0, 1, 1])
    with pytest.raises(ValueError, match="parameter of CrossClassValidation"):
        CrossClassValidation(**parameters).find(lambda known: np.arange(4.0)[:, np.newaxis], codes, 2)


def test_two_classes_are_enough():
    codes = np.array([0, 1])
    recorder = Recorder(codes)
    CrossClassValidation(n_folds=20).find(recorder, codes, 2)
    assert {tuple(mask) for mask in recorder.masks} == {(True, False), (False, True)}


def test_parameters_can_be_read_set_and_cloned():
    validation = CrossClassValidation(KnownRecall(0.7), n_folds=5, known_fraction=0.5, random_state=7)
    assert clone(validation).get_params() == validation.get_params()
    assert validation.set_params(n_folds=2).n_folds == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("error", MinOpenWorldError()),
        ("f1", F1(0.9)),
        ("F1=0", F1(0.0)),
        ("far", FalseAcceptRate(0.05)),
        (" far=0.1 ", FalseAcceptRate(0.1)),
        ("recall=0.95", KnownRecall(0.95)),
    ],
)
def test_objectives_by_word(text, expected):
    assert parse_objective(text) == expected


@pytest.mark.parametrize("text", ["", "speed", "far=x", "far=1.5", "recall=-1", "error=0.1", "far=nan"])
def test_words_that_are_no_objective(text):
    with pytest.raises(ValueError, match="There is no objective"):
        parse_objective(text)
