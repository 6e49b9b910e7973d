"""Groups of near copies: what calibration and the score make of them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openworld import OpenWorldRecognizer, load, save
from openworld.recognition import ColdStartRecognizer
from openworld.recognition.adaptive.groups import ALONE, Grouping, group_hashes
from openworld.recognition.adaptive.reservoir import Reservoir

N_FEATURES = 20


def bursts(n_classes=12, n_groups=4, n_copies=6, seed=0, first=0, spread=2.0):
    """Classes that vary from group to group; a sample differs little from the others of its group."""
    random = np.random.default_rng(seed)
    centers = spread * np.random.default_rng(99).normal(size=(100, N_FEATURES))
    codes = np.repeat(np.arange(first, first + n_classes), n_groups)
    middles = centers[codes] + random.normal(size=(len(codes), N_FEATURES))
    groups, y = np.repeat(np.arange(len(codes)), n_copies), np.repeat(codes, n_copies)
    X = middles[groups] + 0.1 * random.normal(size=(len(groups), N_FEATURES))
    return X.astype(np.float32), y, groups


def error(model, X, y, unknown):
    """Return the open-world error (Eq. 9)."""
    return np.mean(model.predict(X) != y) + np.mean(model.predict(unknown) != model.unknown_label_)


@pytest.mark.parametrize("seed", range(3))
def test_calibration_leaves_whole_groups_out(seed):
    """New samples are of new groups: with groups the error is as promised, without far from it."""
    X, y, groups = bursts(seed=seed)
    test, truth, _ = bursts(n_groups=30, n_copies=1, seed=seed + 50)
    unknown = bursts(first=40, n_groups=30, n_copies=1, seed=seed + 70)[0]
    with_groups, without = OpenWorldRecognizer().fit(X, y, groups=groups), OpenWorldRecognizer().fit(X, y)
    found = error(with_groups, test, truth, unknown)
    assert found < 0.7 * error(without, test, truth, unknown)
    assert abs(with_groups.calibration_.error - found) < 0.15
    assert without.calibration_.error < 0.05


def test_a_class_of_one_burst_counts_as_one_of_a_single_sample():
    X, y, _ = bursts(n_groups=10, n_copies=1, spread=1.4)
    test = bursts(n_classes=1, n_groups=200, n_copies=1, first=40, seed=5, spread=1.4)[0]
    known = dict.fromkeys(("one", "burst", "group"), 0.0)
    for seed in range(10, 14):
        burst, label, _ = bursts(n_classes=1, n_groups=1, n_copies=10, first=40, seed=seed, spread=1.4)
        for name, n, groups in (("one", 1, None), ("burst", 10, None), ("group", 10, np.zeros(10))):
            model = OpenWorldRecognizer().fit(X, y).partial_fit(burst[:n], label[:n], groups=groups)
            known[name] += np.mean(model.predict(test) == 40) / 4
    assert known["group"] > known["burst"] + 0.2
    assert abs(known["group"] - known["one"]) < 0.1


def test_groups_of_one_are_no_groups():
    X, y, _ = bursts(n_groups=8, n_copies=1)
    models = [
        OpenWorldRecognizer().fit(X, y, groups=groups)
        for groups in (None, np.arange(len(X)), [""] * len(X), [None] * len(X), np.full(len(X), np.nan))
    ]
    for model in models[1:]:
        assert model.calibration_ == models[0].calibration_
        np.testing.assert_array_equal(model.decision_function(X), models[0].decision_function(X))


@settings(max_examples=10, deadline=None)
@given(cuts=st.lists(st.integers(0, 288), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_order_and_batches_make_no_difference(cuts, seed):
    X, y, groups = bursts()
    start = OpenWorldRecognizer().fit(X, y, groups=groups).without_classes()
    whole = start.without_classes().partial_fit(X, y, groups=groups)
    order = np.random.default_rng(seed).permutation(len(X))
    batches, parts = start.without_classes(), start.without_classes()
    for rows in np.split(order, sorted(cuts)):
        if len(rows):
            batches.partial_fit(X[rows], y[rows], groups=groups[rows])
            parts = parts + start.without_classes().partial_fit(X[rows], y[rows], groups=groups[rows])
    for model in (batches, parts):
        assert model.threshold_ == pytest.approx(whole.threshold_, rel=1e-4)
        np.testing.assert_array_equal(
            model.reservoir_.groups(whole.classes_), whole.reservoir_.groups(whole.classes_)
        )


@pytest.mark.parametrize("exact", [False, True])
def test_a_model_file_keeps_groups(tmp_path, exact):
    X, y, groups = bursts()
    model = OpenWorldRecognizer().fit(X, y, groups=groups)
    save(model, tmp_path / "model.ow", exact=exact)
    loaded = load(tmp_path / "model.ow")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    more = bursts(n_classes=1, first=50)
    for one in (model, loaded):
        one.partial_fit(*more[:2], groups=more[2] + 1000)
    assert loaded.threshold_ == pytest.approx(model.threshold_, rel=1e-4)
    np.testing.assert_array_equal(
        loaded.reservoir_.groups(model.classes_), model.reservoir_.groups(model.classes_)
    )


def test_a_cold_start_keeps_groups(tmp_path):
    X, y, groups = bursts()
    y = y.astype(str)
    model = ColdStartRecognizer().start(N_FEATURES)
    first = y == y[0]
    model.partial_fit(X[first], y[first], groups=groups[first])
    save(model, tmp_path / "model.ow")
    for one in (model, load(tmp_path / "model.ow")):
        one.partial_fit(X[~first], y[~first], groups=groups[~first])
        fitted = OpenWorldRecognizer().fit(X, y, groups=groups)
        assert one.threshold_ == pytest.approx(fitted.threshold_, rel=1e-3)
        assert one.threshold_ != pytest.approx(OpenWorldRecognizer().fit(X, y).threshold_, rel=1e-2)


def test_an_undone_change_leaves_no_groups():
    X, y, groups = bursts(n_groups=8, n_copies=1)
    model = OpenWorldRecognizer().fit(X, y)
    undo = model.restorer([77])
    model.partial_fit(X[:5], [77] * 5, groups=groups[:5])
    assert model.reservoir_.groups(model.classes_) is not None
    undo()
    assert model.reservoir_.groups(model.classes_) is None


def test_groups_go_with_their_classes():
    X, y, groups = bursts(n_classes=4, n_groups=2)
    groups[y == 3] = groups[y == 2]  # of the same names
    model = OpenWorldRecognizer().fit(X, y, groups=groups)
    before = {label: model.reservoir_.groups(np.array([label])).tolist() for label in range(4)}
    assert before[2][0] in before[3]
    model.rename_class(0, 10)
    model.forget_class(1)
    model.merge_classes([2, 3], 3)
    assert model.reservoir_.groups(np.array([10])).tolist() == before[0]
    assert sorted(model.reservoir_.groups(np.array([3])).tolist()) == sorted(before[2] + before[3])
    counts = model.statistics_.counts[[model.statistics_.row(3)]]
    assert model.reservoir_.grouping(np.array([3]), 99).effective(counts)[0] == pytest.approx(2)


def test_known_unknowns_have_no_groups():
    X, y, groups = bursts()
    labels = np.where(y == 0, -1, y)
    model = OpenWorldRecognizer(unknown_label=-1, learn_unknowns=True).fit(X, labels, groups=groups)
    expected = OpenWorldRecognizer(unknown_label=-1).fit(X[y > 0], y[y > 0], groups=groups[y > 0])
    expected.learn_unknown(X[y == 0])
    assert model.threshold_ == expected.threshold_


def test_weights_repeat_samples_with_their_groups():
    X, y, groups = bursts(n_groups=6, n_copies=2)
    weights = np.arange(len(X)) % 2 + 1
    times = np.repeat(np.arange(len(X)), weights)
    weighted = OpenWorldRecognizer().fit(X, y, sample_weight=weights, groups=groups)
    repeated = OpenWorldRecognizer().fit(X[times], y[times], groups=groups[times])
    assert weighted.calibration_ == repeated.calibration_


@pytest.mark.filterwarnings("ignore:Too little to calibrate with")
def test_classes_of_one_group_each_can_be_learned():
    X, y, groups = bursts(n_groups=1)
    model = OpenWorldRecognizer().fit(X, y, groups=groups)
    assert np.mean(model.predict(X) == y) > 0.9


@pytest.mark.parametrize("groups", [[1, 2], np.zeros((240, 2)), 7])
def test_groups_of_another_length_are_refused_and_nothing_changes(groups):
    X, y, _ = bursts(n_groups=5, n_copies=4)
    with pytest.raises(ValueError, match="one value for each of the 240 samples"):
        OpenWorldRecognizer().fit(X, y, groups=groups)
    model = OpenWorldRecognizer().fit(X, y)
    before = model.decision_function(X)
    with pytest.raises(ValueError, match="one value for each of the 240 samples"):
        model.partial_fit(X, y, groups=groups)
    np.testing.assert_array_equal(model.decision_function(X), before)


def test_hashes_of_groups():
    hashes = group_hashes(["a", "b", "a", ""], range(4))
    assert hashes[0] == hashes[2] != hashes[1]
    assert hashes[3] == ALONE
    for same in (["1", "2"], [1.0, 2.0]):
        np.testing.assert_array_equal(group_hashes([1, 2], range(2)), group_hashes(same, range(2)))
    assert len(set(group_hashes([1.0, 1.5, 1.5 + 1e-15], range(3)).tolist())) == 3
    np.testing.assert_array_equal(group_hashes(["a", "b"], range(2), [2, 1]), hashes[[0, 0, 1]])
    for missing in (pd.Series(["a", None], dtype="string"), pd.Series([1, None], dtype="Int64"), [1, np.nan]):
        assert [one == ALONE for one in group_hashes(missing, range(2))] == [False, True]


def test_the_share_of_a_group_is_estimated_without_bias():
    """Of classes of 100 in groups of 1, 9, 30 and 60, of which 12 are kept."""
    random, sizes = np.random.default_rng(0), np.array([1, 9, 30, 60])
    of_sample = np.repeat(np.arange(1, 5), sizes).astype(np.uint64)
    found = {group: [] for group in range(1, 5)}
    effective = []
    for _ in range(3000):
        kept = random.choice(of_sample, 12, replace=False)
        grouping = Grouping.of(kept, np.zeros(12, dtype=np.intp), 1)
        for group, part in zip(
            kept, grouping.parts(np.array([100.0]), np.zeros(12, dtype=np.intp)), strict=True
        ):
            found[int(group)].append(part)
        effective.append(1 / grouping.effective(np.array([100.0]))[0])
    for group, size in zip(found, sizes, strict=True):
        assert np.mean(found[group]) == pytest.approx(size / 100, abs=0.015)
    assert np.mean(effective) == pytest.approx(np.sum((sizes / 100) ** 2), rel=0.03)


def test_exact_copies_leave_with_their_group():
    """The reservoir keeps one of them; the mean of the class is of all."""
    X, y, groups = bursts()
    X = X[np.arange(len(X)) // 6 * 6]
    test, truth, _ = bursts(n_groups=30, n_copies=1, seed=50)
    unknown = bursts(first=40, n_groups=30, n_copies=1, seed=70)[0]
    found, without = (OpenWorldRecognizer().fit(X, y, groups=some) for some in (groups, None))
    assert error(found, test, truth, unknown) < 0.5 * error(without, test, truth, unknown)


@pytest.mark.filterwarnings("ignore:Too little to calibrate with")
@pytest.mark.parametrize("sizes", [(4, 4, 4), (10,), (1, 9, 30, 60)])
def test_shares_of_groups_of_exact_copies(tmp_path, sizes):
    """Learned at once, in two batches or two parts, and from a model file."""
    of_sample = np.repeat(np.arange(len(sizes)), sizes)
    X, y = np.random.default_rng(0).normal(size=(len(sizes), N_FEATURES))[of_sample], np.zeros(len(of_sample))
    others, labels, names = bursts(first=1)
    start = OpenWorldRecognizer().fit(others, labels, groups=names).without_classes()
    half = np.arange(len(X)) % 2 == 0
    batches = start.without_classes().partial_fit(X[half], y[half], groups=of_sample[half])
    added = batches + start.without_classes().partial_fit(X[~half], y[~half], groups=of_sample[~half])
    batches.partial_fit(X[~half], y[~half], groups=of_sample[~half])
    whole = start.without_classes().partial_fit(X, y, groups=of_sample)
    save(whole, tmp_path / "model.ow")
    for model in (whole, batches, added, load(tmp_path / "model.ow")):
        grouping = model.reservoir_.grouping(np.zeros(1), 12)
        counts, codes = model.statistics_.counts, np.zeros(len(sizes), dtype=np.intp)
        assert sorted(grouping.parts(counts, codes)) == pytest.approx(np.divide(sizes, sum(sizes)))
        assert grouping.effective(counts)[0] == pytest.approx(sum(sizes) ** 2 / np.sum(np.square(sizes)))


def test_a_sample_that_comes_again_is_of_the_group_that_is_known():
    X = np.random.default_rng(0).normal(size=(5, 3))
    one, two = np.full(5, 3, dtype=np.uint64), np.full(5, 9, dtype=np.uint64)
    orders = [(None, one, two), (two, None, one), (one, two, None)]
    for groups in orders:
        reservoir, merged = Reservoir(12), Reservoir(12)
        for hashes in groups:
            reservoir.add(X, np.zeros(5), hashes)
            part = Reservoir(12)
            part.add(X, np.zeros(5), hashes)
            merged.merge_from(part)
        assert reservoir.groups(np.zeros(1)).tolist() == merged.groups(np.zeros(1)).tolist() == [9] * 5
        assert reservoir.times(np.zeros(1)).tolist() == merged.times(np.zeros(1)).tolist() == [2] * 5
