"""The representation that is chosen on the starting classes."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from openworld.recognition.adaptive import choice, held_out
from openworld.recognition.adaptive.choice import candidate_metrics, choose_metric
from openworld.recognition.adaptive.held_out import hold_out
from openworld.recognition.adaptive.metric import LARGEST_SCATTER, AdaptiveMetric

DIGITS, DIGIT = load_digits(return_X_y=True)


def chosen(samples, labels, n_lifted=200):
    return choose_metric(samples, labels, n_lifted=n_lifted, random_state=0)


@pytest.mark.parametrize(
    ("n_features", "n_lifted", "expected"),
    [
        (129, 2000, [0, 2000]),
        (1024, 2000, [0, 2000]),
        (65, 0, [0]),
        (32, 0, [0]),
        (2000, 2000, [0, 2000]),
        (LARGEST_SCATTER, 2000, [0, 2000]),
        (LARGEST_SCATTER + 1, 500, [500]),
        (LARGEST_SCATTER + 1, 0, [2000]),
    ],
)
def test_the_lifts_of_directions_that_are_tried(n_features, n_lifted, expected):
    candidates = candidate_metrics(n_features, n_lifted, 0)
    for standardize in (False, True):
        lifts = [c.n_lifted for c in candidates if c.directions and c.standardize is standardize]
        assert lifts == expected
    assert (not candidates[0].directions) == (n_features <= 32)
    assert all(c.directions for c in candidates[1:])


@pytest.mark.parametrize(("n_features", "rows"), [(4, 256), (31, 1984), (64, 2000), (128, 2000)])
def test_few_features_are_compared_by_distance_or_lifted(n_features, rows):
    candidates = candidate_metrics(n_features, 2000, 0)
    found = [(metric.directions, metric.n_lifted) for metric in candidates]
    assert found == [(False, 0), (False, rows), (True, rows), (True, rows)]


def test_pixels_are_lifted():
    metric = chosen(DIGITS, DIGIT)
    assert metric.n_lifted == 200


def test_many_features_are_not_lifted_without_many_samples():
    candidates = candidate_metrics(2000, 2000, 0, lift_many=False)
    assert {metric.n_lifted for metric in candidates} == {0}


def counts_of_words(n_samples, n_features=1100, seed=0):
    """Eight classes, each of two pairs of topics; two classes together have the same topics."""
    random = np.random.default_rng(seed)
    labels = np.arange(n_samples) % 8
    first = random.integers(2, size=n_samples)
    pairs = np.column_stack([first, (first + labels) % 2 + 2]) + 4 * (labels // 2)[:, np.newaxis]
    words = 30 * pairs[:, :, np.newaxis] + random.integers(30, size=(n_samples, 2, 25))
    counts = np.zeros((n_samples, n_features), dtype=np.float32)
    np.add.at(counts, (np.arange(n_samples)[:, np.newaxis, np.newaxis], words), 1)
    return counts, labels


@pytest.mark.parametrize(("n_samples", "n_features", "lifted"), [(600, 1100, 300), (400, 1100, 0)])
def test_many_features_are_lifted_where_that_pays(n_samples, n_features, lifted):
    metric = chosen(*counts_of_words(n_samples, n_features), n_lifted=300)
    assert metric.n_lifted == lifted


def test_many_features_in_which_classes_are_directions_are_not_lifted():
    random = np.random.default_rng(0)
    labels = np.arange(1200) % 8
    samples = random.normal(size=(8, 1100))[labels] + 6 * random.normal(size=(1200, 1100))
    assert chosen(samples, labels, n_lifted=300).n_lifted == 0


@pytest.mark.parametrize(("scale", "standardize"), [(1.0, False), (1e4, True)])
def test_both_lifts_are_tried_where_features_are_too_many_to_do_without(monkeypatch, scale, standardize):
    monkeypatch.setattr(choice, "FEW_FEATURES", 10)
    monkeypatch.setattr(choice, "LARGEST_SCATTER", 150)
    random = np.random.default_rng(0)
    labels = np.arange(600) % 10
    samples = random.normal(size=(10, 200))[labels] + 2 * random.normal(size=(600, 200))
    samples[:, 0] = scale * random.normal(size=600)
    metric = chosen(samples, labels)
    assert (metric.n_lifted, metric.standardize) == (200, standardize)


def blobs(n_classes, distance):
    random = np.random.default_rng(0)
    labels = np.arange(40 * n_classes) % n_classes
    centers = distance * random.normal(size=(n_classes, 4))
    return centers[labels] + random.normal(size=(len(labels), 4)), labels


def test_blobs_that_lie_apart_are_compared_by_distance():
    metric = chosen(*blobs(5, 9))
    assert not metric.directions
    assert metric.n_lifted == 0


def test_blobs_that_overlap_are_lifted():
    metric = chosen(*blobs(5, 1))
    assert (metric.directions, metric.n_lifted, metric.power) == (False, 200, 0.5)


@pytest.mark.parametrize("n_classes", [2, 5, 10])
def test_vectors_whose_length_says_nothing_are_lifted_as_directions(n_classes):
    random = np.random.default_rng(0)
    labels = np.arange(400) % n_classes
    samples = random.normal(size=(n_classes, 20))[labels] + 0.7 * random.normal(size=(400, 20))
    samples *= random.lognormal(sigma=1.5, size=(400, 1))
    metric = chosen(samples, labels)
    assert metric.directions
    assert metric.n_lifted == 200
    assert metric.power == (0.5 if n_classes < 8 else 1.0)


@pytest.mark.parametrize(
    ("n_features", "n_classes", "expected"),
    [
        (4, 1, (False, 200, 0.5)),
        (128, 1, (False, 200, 0.5)),
        (129, 2, (True, 200, 0.5)),
        (129, 7, (True, 200, 0.5)),
        (1100, 7, (True, 0, 0.5)),
    ],
)
def test_few_classes_compare_nothing(n_features, n_classes, expected, monkeypatch):
    monkeypatch.setattr(choice, "scored_samples", None)
    samples = np.random.default_rng(0).normal(size=(28, n_features))
    metric = chosen(samples, np.arange(28) % n_classes)
    assert (metric.directions, metric.n_lifted, metric.power) == expected
    assert metric.standardize is not metric.directions


@pytest.mark.parametrize(
    ("n_classes", "repeated", "expected"),
    [
        (2, 1, [(False, 200, False), (True, 200, False)]),
        (7, 1, [(False, 0, False), (False, 200, False), (True, 200, False)]),
        (8, 1, [(False, 0, False), (False, 200, False), (True, 200, False), (True, 200, True)]),
        (8, 3, [(True, 0, False), (True, 0, True), (True, 200, False), (True, 200, True)]),
    ],
)
def test_what_is_compared(n_classes, repeated, expected, monkeypatch):
    """With 64 features, and with 192. `standardize` is told of directions only."""
    seen = []
    fit = choice.AdaptiveMetric.fit
    monkeypatch.setattr(choice.AdaptiveMetric, "fit", lambda self, X, y: seen.append(self) or fit(self, X, y))
    monkeypatch.setattr(choice, "_GOOD_ENOUGH", 2.0)
    known = n_classes > DIGIT
    chosen(np.tile(DIGITS[known], repeated), DIGIT[known])
    found = [
        (metric.directions, metric.n_lifted, metric.directions and metric.standardize) for metric in seen
    ]
    assert found == expected
    assert {metric.power for metric in seen} == {0.5 if n_classes < 8 else 1.0}


def test_neither_order_nor_names_make_a_difference():
    order = np.random.default_rng(0).permutation(len(DIGIT))
    first = chosen(DIGITS, DIGIT).get_params()
    assert chosen(DIGITS[order], DIGIT[order]).get_params() == first
    names = np.array(list("jihgfedcba"))
    assert chosen(DIGITS, names[DIGIT]).get_params() == first


def test_many_samples_cost_no_more(monkeypatch):
    """A few thousand samples decide, whatever their number."""
    seen = []
    fit = choice.AdaptiveMetric.fit

    def spy(self, X, y):
        seen.append(len(X))
        return fit(self, X, y)

    monkeypatch.setattr(choice.AdaptiveMetric, "fit", spy)
    samples, labels = load_iris(return_X_y=True)
    noise = np.random.default_rng(0).normal(scale=1e-3, size=(15_000, 4))
    chosen(np.tile(samples, (100, 1)) + noise, np.tile(labels, 100), n_lifted=0)
    assert seen
    assert max(seen) <= 3000


def test_with_very_many_classes_only_some_are_judged(monkeypatch):
    judged = []
    monkeypatch.setattr(held_out, "_MOST_JUDGED", 1000)
    monkeypatch.setattr(choice, "hold_out", lambda *parts: judged.append(parts[4]) or hold_out(*parts))
    chosen(DIGITS[:300], DIGIT[:300])
    assert all(np.unique(codes).tolist() == [0, 3, 6, 9] for codes in judged)


@pytest.mark.parametrize(
    ("promised", "gain", "expected"),
    [
        ({0.5: 0.805, 0.25: 0.79}, 0.0, 0.5),
        ({0.5: 0.805, 0.25: 0.79}, 0.0075, 1.0),
        ({0.5: 0.805, 0.25: 0.81}, 0.0075, 0.25),
        ({0.5: 0.8, 0.25: 0.8}, 0.0, 1.0),
    ],
)
def test_another_power_has_to_promise_more(monkeypatch, promised, gain, expected):
    monkeypatch.setattr(choice, "_promised", lambda metric, power: promised[power])
    assert choice._best_power(AdaptiveMetric(), 0.8, (), gain) == expected
