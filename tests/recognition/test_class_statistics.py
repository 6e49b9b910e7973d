import doctest

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from openworld.recognition import class_statistics, class_sums
from openworld.recognition.class_statistics import ClassStatistics

KINDS = ["per_class", "pooled", "none"]
CLASSES = ["ant", "bee", "cat", "dog"]


# -- what the statistics must be, by brute force ------------------------------------------------------


def brute_scatter(samples):
    """np.cov of repeated samples; zero for one sample."""
    n, n_features = samples.shape
    if n < 2:
        return np.zeros((n_features, n_features))
    return np.atleast_2d(np.cov(samples.T)) * (n - 1)


def check_against_samples(statistics, X, y, left_behind=0.0):
    """Compare with numpy on the samples of each class; `left_behind` is what pooled scatter keeps."""
    X, y = np.asarray(X, dtype=float), np.asarray(y)
    classes = np.unique(y).tolist()
    assert sorted(statistics.labels) == classes
    assert len(statistics) == len(classes)
    assert statistics.counts.shape == (len(classes),)
    assert statistics.sums.shape == statistics.means.shape == (len(classes), X.shape[1])
    scale = max(1.0, np.square(X).sum())
    total = np.zeros((X.shape[1], X.shape[1])) + left_behind
    for row, label in enumerate(statistics.labels):
        members = X[y == label]
        assert label in statistics
        assert statistics.row(label) == row
        assert statistics.count(label) == pytest.approx(len(members), rel=1e-12)
        assert statistics.counts[row] == statistics.count(label)
        np.testing.assert_allclose(statistics.sums[row], members.sum(axis=0), rtol=0, atol=1e-12 * scale)
        np.testing.assert_allclose(statistics.means[row], members.mean(axis=0), rtol=0, atol=1e-10)
        np.testing.assert_array_equal(statistics.mean(label), statistics.means[row])
        if statistics.scatter_kind == "per_class":
            expected = brute_scatter(members)
            np.testing.assert_allclose(statistics.class_scatter(label), expected, rtol=0, atol=1e-12 * scale)
        total += brute_scatter(members)
    if statistics.scatter_kind != "none":
        np.testing.assert_allclose(statistics.scatter, total, rtol=0, atol=1e-12 * scale)


def snapshot(statistics):
    parts = [np.copy(statistics.counts), np.copy(statistics.sums)]
    if statistics.scatter_kind != "none":
        parts.append(np.copy(statistics.scatter))
    if statistics.scatter_kind == "per_class":
        parts += [np.copy(statistics.class_scatter(label)) for label in statistics.labels]
    rows = {label: statistics.row(label) for label in statistics.labels}
    return statistics.labels, rows, statistics.n_features, parts


def assert_unchanged(statistics, before):
    labels, rows, n_features, parts = snapshot(statistics)
    assert (labels, rows, n_features) == before[:3]
    assert len(parts) == len(before[3])
    for part, expected in zip(parts, before[3], strict=True):
        np.testing.assert_array_equal(part, expected)


def assert_same(a, b, tolerance=1e-10):
    """The same classes with the same content, in whatever order, to a relative tolerance."""
    assert set(a.labels) == set(b.labels)
    assert a.n_features == b.n_features
    assert a.scatter_kind == b.scatter_kind
    for label in a.labels:
        assert a.count(label) == pytest.approx(b.count(label), rel=tolerance)
        np.testing.assert_allclose(a.mean(label), b.mean(label), rtol=tolerance, atol=tolerance)
        if a.scatter_kind == "per_class":
            assert_close_matrices(a.class_scatter(label), b.class_scatter(label), tolerance)
    if a.scatter_kind != "none":
        assert_close_matrices(a.scatter, b.scatter, tolerance)


def assert_close_matrices(a, b, tolerance):
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, np.abs(b).max(initial=0)))


@st.composite
def labeled(draw, min_size=1, max_size=25):
    """Samples of whole numbers, so that scatter is either 0 or not tiny."""
    n, n_features = draw(st.integers(min_size, max_size)), draw(st.integers(1, 3))
    n_classes, rng = draw(st.integers(1, 4)), np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.integers(-20, 21, size=(n, n_features)).astype(float)
    return X, np.array(CLASSES)[rng.integers(0, n_classes, size=n)]


def random_samples(seed=0, n=40, n_features=3, classes=CLASSES):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, n_features)), np.array(classes)[np.arange(n) % len(classes)]


# -- hand-worked ------------------------------------------------------------------------------------


def test_by_hand():
    statistics = ClassStatistics().add([[0, 0], [2, 0], [4, 6], [7, 1]], ["cat", "cat", "cat", "dog"])
    assert statistics.labels == ["cat", "dog"]
    assert statistics.n_features == 2
    assert statistics.counts.tolist() == [3, 1]
    assert statistics.sums.tolist() == [[6, 6], [7, 1]]
    assert statistics.means.tolist() == [[2, 2], [7, 1]]
    # From (2, 2): (-2, -2), (0, -2), (2, 4).
    assert statistics.class_scatter("cat").tolist() == [[8, 12], [12, 24]]
    assert statistics.class_scatter("dog").tolist() == [[0, 0], [0, 0]]
    assert statistics.scatter.tolist() == [[8, 12], [12, 24]]


def test_weights_by_hand():
    statistics = ClassStatistics().add([[0.0], [4.0]], ["cat", "cat"], [3, 1])
    assert statistics.count("cat") == 4
    assert statistics.mean("cat").tolist() == [1]
    assert statistics.class_scatter("cat").tolist() == [[3 * 1 + 1 * 9]]


def test_the_example_of_the_docstring():
    assert doctest.testmod(class_statistics).failed == 0
    assert doctest.testmod(class_statistics).attempted >= 4


def test_before_the_first_sample():
    for kind in KINDS:
        statistics = ClassStatistics(kind)
        assert len(statistics) == 0
        assert statistics.labels == []
        assert statistics.n_features is None
        assert statistics.counts.shape == (0,)
        assert statistics.sums.shape == statistics.means.shape == (0, 0)
        assert "cat" not in statistics
        assert len(statistics + ClassStatistics(kind)) == 0
    assert ClassStatistics("pooled").scatter.shape == (0, 0)


def test_classes_keep_the_order_in_which_they_were_learnt():
    statistics = (
        ClassStatistics().add([[1.0]], ["z"]).add([[1.0]], ["a"]).add([[1.0]], ["m"]).add([[2.0]], ["a"])
    )
    assert statistics.labels == ["z", "a", "m"]


# -- sums -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=50)
@given(samples=labeled())
def test_against_numpy(kind, samples):
    X, y = samples
    check_against_samples(ClassStatistics(kind).add(X, y), X, y)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=50)
@given(samples=labeled(), data=st.data())
def test_whole_weights_are_repeated_samples(kind, samples, data):
    X, y = samples
    weights = np.array(data.draw(st.lists(st.integers(0, 4), min_size=len(y), max_size=len(y))))
    weighted = ClassStatistics(kind).add(X, y, weights)
    if weights.any():
        check_against_samples(weighted, np.repeat(X, weights, axis=0), np.repeat(y, weights))
    else:
        assert len(weighted) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_weights_scale(kind):
    X, y = random_samples()
    weights = np.random.default_rng(1).uniform(0.1, 3, size=len(y))
    one, many = ClassStatistics(kind).add(X, y, weights), ClassStatistics(kind).add(X, y, 1000 * weights)
    np.testing.assert_allclose(many.counts, 1000 * one.counts, rtol=1e-12)
    np.testing.assert_allclose(many.means, one.means, rtol=1e-12)
    if kind != "none":
        np.testing.assert_allclose(many.scatter, 1000 * one.scatter, rtol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=50)
@given(samples=labeled(min_size=2), data=st.data())
def test_any_order_and_any_batches(kind, samples, data):
    X, y = samples
    order = data.draw(st.permutations(range(len(y))))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(y)), max_size=6)))
    pieces = np.split(np.array(order), cuts)
    batched = ClassStatistics(kind)
    for piece in pieces:
        batched.add(X[piece], y[piece])  # pieces may be empty
    assert_same(batched, ClassStatistics(kind).add(X, y))
    check_against_samples(batched, X, y)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=50)
@given(samples=labeled(min_size=3), data=st.data())
def test_parts_add_up_in_any_association(kind, samples, data):
    X, y = samples
    part_of = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(y), max_size=len(y))))
    a, b, c = (ClassStatistics(kind).add(X[part_of == part], y[part_of == part]) for part in range(3))
    before = [snapshot(part) for part in (a, b, c)]
    whole = ClassStatistics(kind).add(X, y)
    for combined in ((a + b) + c, a + (b + c), c + a + b, sum([b, c, a], start=ClassStatistics(kind))):
        assert_same(combined, whole)
    for part, unchanged in zip((a, b, c), before, strict=True):
        assert_unchanged(part, unchanged)
    in_place = a.copy()
    in_place += b
    in_place += c
    assert_same(in_place, whole)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=50)
@given(samples=labeled())
def test_twice_itself(kind, samples):
    X, y = samples
    twice = ClassStatistics(kind).add(X, y)
    twice += twice
    check_against_samples(twice, np.vstack([X, X]), np.concatenate([y, y]))
    twice -= twice
    assert len(twice) == 0


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=50)
@given(first=labeled(), seed=st.integers(0, 99))
def test_taking_away_what_was_added_returns_to_before(kind, first, seed):
    X, y = first
    rng = np.random.default_rng(seed)
    more_X = rng.integers(-20, 20, size=(10, X.shape[1])).astype(float)
    more_y = rng.choice(CLASSES, size=10)
    before = ClassStatistics(kind).add(X, y)
    assert_same(before.copy().add(more_X, more_y).subtract(more_X, more_y), before)
    more = ClassStatistics(kind).add(more_X, more_y)
    assert_same((before + more) - more, before)
    assert_same((before + more) - before, more)


@pytest.mark.parametrize("kind", KINDS)
def test_taking_all_samples_of_a_class_away_removes_it(kind):
    X, y = random_samples()
    statistics = ClassStatistics(kind).add(X, y).subtract(X[y == "bee"], y[y == "bee"])
    assert "bee" not in statistics
    assert_same(statistics, ClassStatistics(kind).add(X[y != "bee"], y[y != "bee"]))


def test_taking_fractions_of_a_sample_away_leaves_no_dust():
    statistics = ClassStatistics().add([[1.0], [5.0]], ["cat", "dog"], [0.3, 1])
    for _ in range(3):
        statistics.subtract([[1.0]], ["cat"], [0.1])
    assert statistics.labels == ["dog"]  # 0.3 - 0.1 - 0.1 - 0.1 is a little below 0
    statistics.add([[1.0], [1.0]], ["cat", "cat"], [0.1, 0.2]).subtract([[1.0]], ["cat"], [0.3])
    assert statistics.labels == ["dog"]  # 0.1 + 0.2 - 0.3 a little above


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_offset_costs_no_accuracy(kind):
    X, y = random_samples(n=400)
    offset = 1e6
    batched = ClassStatistics(kind)
    for piece in np.array_split(np.arange(400), 13):
        batched.add(X[piece] + offset, y[piece])
    parts = sum(
        (ClassStatistics(kind).add(X[i::5] + offset, y[i::5]) for i in range(5)), start=ClassStatistics(kind)
    )
    plain = ClassStatistics(kind).add(X, y)
    for shifted in (batched, parts, batched.copy().add(X + offset, y).subtract(X + offset, y)):
        for label in CLASSES:
            np.testing.assert_allclose(shifted.mean(label) - offset, plain.mean(label), rtol=0, atol=2e-9)
        if kind == "per_class":
            for label in CLASSES:
                assert_close_matrices(shifted.class_scatter(label), plain.class_scatter(label), 1e-8)
        if kind != "none":
            assert_close_matrices(shifted.scatter, plain.scatter, 1e-8)


def test_float32_samples_are_summed_in_float64():
    X = np.full((100_000, 1), 0.1, dtype=np.float32)
    statistics = ClassStatistics("pooled").add(X, np.zeros(len(X), dtype=int))
    assert statistics.mean(0)[0] == pytest.approx(float(np.float32(0.1)), rel=1e-12)
    assert statistics.scatter[0, 0] < 1e-12


# -- correcting -------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", CLASSES)
def test_a_forgotten_class_was_never_there(label):
    X, y = random_samples()
    rest = y != label
    for kind in ("per_class", "none"):
        statistics = ClassStatistics(kind).add(X, y)
        statistics.forget(label)
        check_against_samples(statistics, X[rest], y[rest])
        never = ClassStatistics(kind).add(X[rest], y[rest])
        for other in never.labels:  # exactly, to the last bit
            assert statistics.count(other) == never.count(other)
            np.testing.assert_array_equal(statistics.mean(other), never.mean(other))
            if kind == "per_class":
                np.testing.assert_array_equal(statistics.class_scatter(other), never.class_scatter(other))


@pytest.mark.parametrize("label", CLASSES)
def test_pooled_scatter_of_a_forgotten_class_stays(label):
    X, y = random_samples()
    statistics = ClassStatistics("pooled").add(X, y)
    scatter = statistics.scatter.copy()
    statistics.forget(label)
    np.testing.assert_array_equal(statistics.scatter, scatter)
    check_against_samples(statistics, X[y != label], y[y != label], left_behind=brute_scatter(X[y == label]))


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_class_takes_the_row_of_a_forgotten_one(kind):
    X, y = random_samples()
    statistics = ClassStatistics(kind).add(X, y)
    statistics.forget("bee")
    assert statistics.labels == ["ant", "dog", "cat"]
    assert [statistics.row(label) for label in statistics.labels] == [0, 1, 2]
    np.testing.assert_allclose(statistics.means[1], X[y == "dog"].mean(axis=0))
    statistics.forget("cat")
    assert statistics.labels == ["ant", "dog"]
    statistics.add(X[y == "bee"], y[y == "bee"])
    assert statistics.labels == ["ant", "dog", "bee"]
    np.testing.assert_allclose(statistics.mean("bee"), X[y == "bee"].mean(axis=0))
    for label in ["ant", "bee", "dog"]:
        statistics.forget(label)
    assert len(statistics) == 0
    assert statistics.n_features == 3
    assert statistics.means.shape == (0, 3)
    statistics.add([[1.0, 2.0, 3.0]], [7])  # with no class left, labels may be of another kind
    assert statistics.labels == [7]


@pytest.mark.parametrize("kind", KINDS)
def test_rename(kind):
    X, y = random_samples()
    statistics = ClassStatistics(kind).add(X, y)
    statistics.rename("bee", "a much longer name")
    assert statistics.labels == ["ant", "a much longer name", "cat", "dog"]
    assert "bee" not in statistics
    check_against_samples(statistics, X, np.where(y == "bee", "a much longer name", y))
    statistics.rename("cat", "cat")
    check_against_samples(statistics, X, np.where(y == "bee", "a much longer name", y))
    statistics.rename("ant", np.str_("bee"))
    assert [type(label) for label in statistics.labels] == [str] * 4
    statistics.add(X[y == "ant"], ["bee"] * 10)
    assert statistics.count("bee") == 20


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("labels", "into"),
    [
        (["ant", "cat"], "new"),
        (["ant", "cat"], "ant"),
        (["cat", "ant"], "cat"),
        (["ant", "cat"], "dog"),  # dog joins them
        (["dog", "cat", "bee", "ant"], "new"),
        (["ant", "ant"], "new"),
        (["bee"], "new"),
        (["bee"], "bee"),
    ],
)
def test_merged_classes_were_always_one(kind, labels, into):
    X, y = random_samples()
    X += np.array([5.0, -3.0, 1.0]) * np.searchsorted(CLASSES, y)[:, np.newaxis]
    statistics = ClassStatistics(kind).add(X, y)
    statistics.merge(iter(labels), into)
    merged = np.isin(y, labels)
    check_against_samples(statistics, X, np.where(merged, into, y))
    # And they go on as one.
    statistics.add(X, np.full(len(y), into))
    check_against_samples(
        statistics, np.vstack([X, X]), np.concatenate([np.where(merged, into, y), [into] * len(y)])
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_is_independent(kind):
    X, y = random_samples()
    statistics = ClassStatistics(kind).add(X, y)
    before = snapshot(statistics)
    copy = statistics.copy()
    assert_unchanged(copy, before)
    copy.add(X, y)
    copy.rename("bee", "wasp")
    copy.merge(["ant", "wasp"], "insect")
    copy.forget("dog")
    copy.subtract(X[:3], ["insect" if label in ("ant", "bee") else label for label in y[:3]])
    assert_unchanged(statistics, before)


@pytest.mark.parametrize("kind", KINDS)
def test_sums_share_nothing_with_their_parts(kind):
    X, y = random_samples()
    a, b = ClassStatistics(kind).add(X[y == "ant"], y[y == "ant"]), ClassStatistics(kind).add(X, y)
    before = snapshot(b)
    a += b
    a.add(X, y)
    a.forget("ant")
    assert_unchanged(b, before)


@pytest.mark.parametrize("kind", KINDS)
def test_the_samples_given_are_not_changed(kind):
    X, y = random_samples()
    X_before, y_before, weights = X.copy(), y.copy(), np.arange(len(y), dtype=float)
    ClassStatistics(kind).add(X, y, weights).subtract(X, y, weights)
    np.testing.assert_array_equal(X, X_before)
    np.testing.assert_array_equal(y, y_before)
    np.testing.assert_array_equal(weights, np.arange(len(y)))


@pytest.mark.parametrize("kind", KINDS)
def test_restored_from_its_arrays(kind):
    X, y = random_samples()
    original = ClassStatistics(kind).add(X, y)
    matrices = {
        "none": lambda: None,
        "pooled": lambda: original.scatter,
        "per_class": lambda: np.array([original.class_scatter(label) for label in original.labels]),
    }[kind]()
    restored = ClassStatistics.restore(original.labels, original.counts, original.sums, kind, matrices)
    before = snapshot(original)
    assert_unchanged(restored, before)
    restored.add(X, y)
    assert_unchanged(original, before)
    check_against_samples(restored, np.vstack([X, X]), np.concatenate([y, y]))


@pytest.mark.parametrize("kind", ["pooled", "per_class"])
def test_scatter_cannot_be_restored_from_nothing(kind):
    with pytest.raises(ValueError, match="scatter_matrices"):
        ClassStatistics.restore(["cat"], np.ones(1), np.ones((1, 2)), kind)


class Corrections(RuleBasedStateMachine):
    """Any sequence of operations, against a plain list of samples."""

    def __init__(self):
        super().__init__()
        self.patches = pytest.MonkeyPatch()

    def teardown(self):
        self.patches.undo()

    @initialize(kind=st.sampled_from(KINDS), most_rows=st.sampled_from([0, 4, 64]))
    def start(self, kind, most_rows):
        self.patches.setattr(class_sums, "_LARGE", 1)  # as with many features
        self.patches.setattr(class_sums, "_MOST_ROWS", most_rows)
        self.statistics = ClassStatistics(kind)
        self.X, self.y = np.empty((0, 2)), np.empty(0, dtype="U9")
        self.left_behind = np.zeros((2, 2))
        self.n_names = 0

    def classes(self):
        return sorted(set(self.y.tolist()))

    @rule(seed=st.integers(0, 999), n=st.integers(0, 6), as_sum=st.booleans())
    def add(self, seed, n, as_sum):
        rng = np.random.default_rng(seed)
        X, y = rng.integers(-9, 9, size=(n, 2)).astype(float), rng.choice(CLASSES + self.classes(), size=n)
        if as_sum:
            self.statistics += ClassStatistics(self.statistics.scatter_kind).add(X, y)
        else:
            self.statistics.add(X, y)
        self.X, self.y = np.vstack([self.X, X]), np.concatenate([self.y, y])

    @precondition(lambda self: len(self.y))
    @rule(data=st.data(), as_difference=st.booleans())
    def subtract(self, data, as_difference):
        gone = np.array(data.draw(st.lists(st.booleans(), min_size=len(self.y), max_size=len(self.y))))
        X, y = self.X[gone], self.y[gone]
        if as_difference:
            self.statistics -= ClassStatistics(self.statistics.scatter_kind).add(X, y)
        else:
            self.statistics.subtract(X, y)
        self.X, self.y = self.X[~gone], self.y[~gone]

    @precondition(lambda self: len(self.y))
    @rule(data=st.data())
    def forget(self, data):
        label = data.draw(st.sampled_from(self.classes()))
        self.statistics.forget(label)
        if self.statistics.scatter_kind == "pooled":
            self.left_behind += brute_scatter(self.X[self.y == label])
        self.X, self.y = self.X[self.y != label], self.y[self.y != label]

    @precondition(lambda self: len(self.y))
    @rule(data=st.data())
    def rename(self, data):
        label = data.draw(st.sampled_from(self.classes()))
        self.n_names += 1
        self.statistics.rename(label, f"name {self.n_names}")
        self.y = np.where(self.y == label, f"name {self.n_names}", self.y)

    @precondition(lambda self: len(self.y))
    @rule(data=st.data())
    def merge(self, data):
        labels = data.draw(st.lists(st.sampled_from(self.classes()), min_size=1, max_size=3))
        into = data.draw(st.sampled_from([*self.classes(), "merged"]))
        self.statistics.merge(labels, into)
        self.y = np.where(np.isin(self.y, labels), into, self.y)

    @rule()
    def copy(self):
        self.statistics = self.statistics.copy()

    @precondition(lambda self: len(self.y))
    @rule(data=st.data())
    def undo(self, data):
        labels = data.draw(st.lists(st.sampled_from(self.classes()), min_size=1, max_size=3))
        before, restore = snapshot(self.statistics), self.statistics.restorer([*labels, "new"])
        self.statistics.add([[1.0, 2.0], [3.0, 5.0]], [labels[0], "new"])
        self.statistics.merge(labels, "new")
        restore()
        assert_unchanged(self.statistics, before)

    @invariant()
    def are_those_of_the_samples(self):
        if self.statistics.n_features is None:
            assert len(self.y) == 0
        else:
            check_against_samples(self.statistics, self.X, self.y, self.left_behind)


Corrections.TestCase.settings = settings(max_examples=60, stateful_step_count=15)
TestCorrections = Corrections.TestCase


# -- labels -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "labels"),
    [
        ([3, 1, 3], [1, 3]),
        (np.array([3, 1, 3], dtype=np.uint8), [1, 3]),
        (np.array([3, 1, 3], dtype=object), [1, 3]),
        ([True, False, True], [False, True]),
        ([3.0, 1.0, 3.0], [1.0, 3.0]),
        (["b", "a", "b"], ["a", "b"]),
        (np.array(["b", "a", "b"], dtype=object), ["a", "b"]),
        (pd.Series(["b", "a", "b"], dtype="category"), ["a", "b"]),
        (pd.Series([3, 1, 3], dtype="Int64"), [1, 3]),
    ],
)
def test_labels_are_plain_python_values(y, labels):
    statistics = ClassStatistics().add([[1.0], [2.0], [3.0]], y)
    assert statistics.labels == labels
    assert [type(label) for label in statistics.labels] == [type(label) for label in labels]
    assert statistics.counts.tolist() == [1, 2]


def test_numpy_and_python_labels_name_the_same_class():
    statistics = ClassStatistics()
    for y in ([1], np.array([1], dtype=np.int64), np.array([1], dtype=np.uint8), [np.int32(1)]):
        statistics.add([[2.0]], y)
    assert statistics.labels == [1]
    assert statistics.count(np.int64(1)) == statistics.count(1) == 4
    assert np.uint8(1) in statistics
    assert statistics.row(np.int16(1)) == 0
    texts = ClassStatistics().add([[2.0]], ["a"]).add([[2.0]], np.array(["a"], dtype=object))
    assert texts.add([[2.0]], np.array(["a", "long name"])[:1]).count(np.str_("a")) == 3
    assert texts.labels == ["a"]


@pytest.mark.parametrize(
    ("first", "second"),
    [([1], ["a"]), (["a"], [1]), ([True], [1]), ([1], [True]), (["a"], [1.0]), ([1.0], [True])],
)
@pytest.mark.parametrize("kind", KINDS)
def test_labels_of_another_kind_are_refused(first, second, kind):
    statistics = ClassStatistics(kind).add([[1.0]], first)
    before = snapshot(statistics)
    with pytest.raises(TypeError, match="mixed kinds"):
        statistics.add([[2.0]], second)
    with pytest.raises(TypeError, match="mixed kinds"):
        statistics += ClassStatistics(kind).add([[2.0]], second)
    with pytest.raises(TypeError, match="mixed kinds"):
        statistics.subtract([[1.0]], second)
    with pytest.raises(TypeError, match="mixed kinds"):
        statistics.rename(first[0], second[0])
    with pytest.raises(TypeError, match="mixed kinds"):
        statistics.merge(first, second[0])
    assert_unchanged(statistics, before)


# -- what is refused leaves everything as it was -----------------------------------------------------

TWO = np.ones((2, 2))
REFUSED = {
    "X of one dimension": (lambda s: s.add([1.0, 2.0], ["ant", "bee"]), ValueError, "two dimensions"),
    "X of three dimensions": (lambda s: s.add([TWO, TWO], ["ant", "bee"]), ValueError, "two dimensions"),
    "y of two dimensions": (lambda s: s.add(TWO, [["ant", "a"], ["bee", "b"]]), ValueError, "1d"),
    "too few labels": (lambda s: s.add(TWO, ["ant"]), ValueError, "2 samples but 1"),
    "too many labels": (lambda s: s.add(TWO[:1], ["ant", "bee"]), ValueError, "1 samples but 2"),
    "other features": (lambda s: s.add(np.ones((1, 3)), ["ant"]), ValueError, "2 and 3 features"),
    "other features taken away": (lambda s: s.subtract(np.ones((1, 3)), ["ant"]), ValueError, "2 and 3"),
    "NaN": (lambda s: s.add([[1, 2], [np.nan, 1]], ["ant", "new"]), ValueError, "NaN"),
    "infinity": (lambda s: s.add([[1, 2], [np.inf, 1]], ["ant", "new"]), ValueError, "infinity"),
    "both infinities": (lambda s: s.add([[np.inf, 2], [-np.inf, 1]], ["ant", "ant"]), ValueError, "infinity"),
    "a sum that overflows": (lambda s: s.add(1e308 * TWO, ["ant", "ant"]), ValueError, "too large"),
    "None in X": (lambda s: s.add([[1, None]], ["ant"]), ValueError, "NaN"),
    "text in X": (lambda s: s.add([["a", "b"]], ["ant"]), ValueError, "could not convert"),
    "NaN taken away": (lambda s: s.subtract([[np.nan, 1]], ["ant"]), ValueError, "NaN"),
    "negative weight": (lambda s: s.add(TWO, ["ant", "new"], [1, -1]), ValueError, "weight"),
    "NaN weight": (lambda s: s.add(TWO, ["ant", "new"], [1, np.nan]), ValueError, "weight"),
    "infinite weight": (lambda s: s.add(TWO, ["ant", "new"], [1, np.inf]), ValueError, "weight"),
    "too few weights": (lambda s: s.add(TWO, ["ant", "new"], [1]), ValueError, "weight"),
    "weights of two dimensions": (lambda s: s.add(TWO[:1], ["ant"], [[1]]), ValueError, "weight"),
    "mixed labels": (lambda s: s.add(TWO, ["ant", 1]), TypeError, "mixed kinds"),
    "no label": (lambda s: s.add(TWO, ["ant", None]), TypeError, "mixed kinds"),
    "more than there is": (lambda s: s.subtract(np.ones((11, 2)), ["ant"] * 11), ValueError, "fewer"),
    "more weight than there is": (lambda s: s.subtract(TWO[:1], ["ant"], [10.1]), ValueError, "fewer"),
    "one class too many": (
        lambda s: s.subtract(TWO, ["ant", "new"]),
        ValueError,
        "'new' has fewer",
    ),
    "more statistics than there are": (lambda s: s.__isub__(s + s), ValueError, "fewer"),
    "forget unknown": (lambda s: s.forget("new"), KeyError, "no class 'new' among the 4"),
    "row of unknown": (lambda s: s.row("new"), KeyError, "no class 'new'"),
    "mean of unknown": (lambda s: s.mean("new"), KeyError, "no class 'new'"),
    "count of unknown": (lambda s: s.count("new"), KeyError, "no class 'new'"),
    "rename unknown": (lambda s: s.rename("new", "newer"), KeyError, "no class 'new'"),
    "rename unknown to known": (lambda s: s.rename("new", "ant"), KeyError, "no class 'new'"),
    "rename onto another": (lambda s: s.rename("ant", "bee"), ValueError, "Merge the two"),
    "rename to nothing": (lambda s: s.rename("ant", None), TypeError, "Unknown label type"),
    "merge unknown": (lambda s: s.merge(["ant", "new"], "ant"), KeyError, "no class 'new'"),
    "merge unknown into new": (lambda s: s.merge(["new"], "new"), KeyError, "no class 'new'"),
    "merge nothing": (lambda s: s.merge([], "newer"), ValueError, "at least one"),
    "merge nothing into known": (lambda s: s.merge([], "ant"), ValueError, "at least one"),
    "merge into nothing": (lambda s: s.merge(["ant", "bee"], None), TypeError, "Unknown label type"),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_changes_nothing(case, kind):
    action, error, message = REFUSED[case]
    X, y = random_samples(n_features=2)
    statistics = ClassStatistics(kind).add(X, y)
    before = snapshot(statistics)
    with pytest.raises(error, match=message):
        action(statistics)
    assert_unchanged(statistics, before)


@pytest.mark.parametrize("name", [np.nan, 2.5, np.inf, 2**63])
@pytest.mark.parametrize("kind", KINDS)
def test_a_class_gets_no_name_that_could_not_be_learnt(name, kind):
    statistics = ClassStatistics(kind).add([[1.0], [2.0]], [1, 2])
    before = snapshot(statistics)
    with pytest.raises(ValueError):
        statistics.rename(1, name)
    with pytest.raises(ValueError):
        statistics.merge([1, 2], name)
    assert_unchanged(statistics, before)


def test_scatter_that_overflows_is_refused():
    X, y = [[1e200], [-1e200]], ["cat", "cat"]
    for kind in ("per_class", "pooled"):
        with pytest.raises(ValueError, match="too large"):
            ClassStatistics(kind).add(X, y)
    assert ClassStatistics("none").add(X, y).mean("cat").tolist() == [0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_only_statistics_of_one_kind_combine(kind, other):
    if kind == other:
        return
    statistics = ClassStatistics(kind).add([[1.0]], ["cat"])
    before = snapshot(statistics)
    for operation in (statistics.__add__, statistics.__iadd__, statistics.__sub__, statistics.__isub__):
        with pytest.raises(ValueError, match="cannot be combined"):
            operation(ClassStatistics(other).add([[1.0]], ["cat"]))
    assert_unchanged(statistics, before)


@pytest.mark.parametrize("sign", [1, -1])
def test_check_combines_says_what_combining_would_raise(sign):
    statistics = ClassStatistics().add([[1.0]], ["cat"])
    before = snapshot(statistics)
    statistics.check_combines(ClassStatistics().add([[1.0]], ["cat"]), sign)
    statistics.check_combines(ClassStatistics(), sign)
    with pytest.raises(ValueError, match="features"):
        statistics.check_combines(ClassStatistics().add([[1.0, 2.0]], ["cat"]), sign)
    if sign < 0:
        with pytest.raises(ValueError, match="fewer"):
            statistics.check_combines(ClassStatistics().add([[1.0]], ["dog"]), sign)
    assert_unchanged(statistics, before)


def test_scatter_that_is_not_kept_cannot_be_read():
    with pytest.raises(ValueError, match="have no scatter"):
        _ = ClassStatistics("none").add([[1.0]], ["cat"]).scatter
    for kind in ("none", "pooled"):
        with pytest.raises(ValueError, match="per_class"):
            ClassStatistics(kind).add([[1.0]], ["cat"]).class_scatter("cat")
    with pytest.raises(KeyError, match="no class 'dog'"):
        ClassStatistics().add([[1.0]], ["cat"]).class_scatter("dog")
    with pytest.raises(ValueError, match="scatter must be"):
        ClassStatistics("full")


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_nothing_changes_nothing(kind):
    X, y = random_samples()
    statistics = ClassStatistics(kind).add(X, y)
    before = snapshot(statistics)
    statistics.add(np.empty((0, 3)), [])
    statistics.add(np.empty((0, 3)), np.array([], dtype="U1"))
    statistics.add(np.full((2, 3), np.nan), ["ant", "new"], [0, 0])  # as good as absent
    statistics.subtract(np.empty((0, 3)), [])
    statistics += ClassStatistics(kind)
    statistics -= ClassStatistics(kind)
    assert_unchanged(statistics, before)
    assert len(ClassStatistics(kind).add(np.empty((0, 3)), [])) == 0
