"""The adaptive metric against scikit-learn's shrinkage, and against itself in other pieces and orders."""

import pickle
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.linalg import fractional_matrix_power
from sklearn.covariance import OAS, oas, shrunk_covariance
from sklearn.datasets import load_iris

from openworld import AdaptiveMetric, ClassStatistics
from openworld.recognition.adaptive.metric import (
    Whitening,
    inverse_cholesky,
    oracle_approximating_shrinkage,
    represented_statistics,
    times_triangular,
    unit,
)

X, Y = load_iris(return_X_y=True)
FORMS = [{"standardize": s, "n_lifted": n} for s in (False, True) for n in (0, 12)]
FORMS.append({"standardize": True, "directions": False, "n_lifted": 12})
EVERY_FORM = pytest.mark.parametrize("form", FORMS, ids=str)


# --- Shrinkage ---


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("n_samples", "n_features"), [(5, 3), (4, 30), (200, 10), (1000, 2)])
def test_shrinkage_is_that_of_scikit_learn(n_samples, n_features, seed):
    random = np.random.default_rng(seed)
    samples = random.normal(size=(n_samples, n_features)) @ random.normal(size=(n_features, n_features))
    expected = oas(samples, assume_centered=True)[1]
    covariance = samples.T @ samples / n_samples
    assert oracle_approximating_shrinkage(covariance, n_samples) == pytest.approx(expected, rel=1e-12)


def test_shrinkage_of_special_covariances():
    assert oracle_approximating_shrinkage(np.eye(4), 100) == 1.0
    assert oracle_approximating_shrinkage(np.zeros((4, 4)), 100) == 1.0
    assert oracle_approximating_shrinkage(np.array([[2.0]]), 100) == 1.0
    many = oracle_approximating_shrinkage(np.diag([1.0, 2.0, 3.0]), 1e9)
    assert 0 < many < 1e-6


# --- Whitening ---


def statistics_of(n_samples=3000, n_features=6, seed=0):
    random = np.random.default_rng(seed)
    shape = np.eye(n_features) + 0.3 * random.normal(size=(n_features, n_features))
    centers = 3 * random.normal(size=(4, n_features))
    labels = np.arange(n_samples) % 4
    samples = centers[labels] + random.normal(size=(n_samples, n_features)) @ shape
    return samples, labels, ClassStatistics("pooled").add(samples, labels)


def within_class_covariance(samples, labels):
    residues = np.concatenate([samples[labels == c] - samples[labels == c].mean(axis=0) for c in set(labels)])
    return residues.T @ residues / (len(samples) - len(set(labels)))


def test_whitening_makes_the_within_class_covariance_the_identity():
    samples, labels, statistics = statistics_of()
    whitening = Whitening.of(statistics)
    found = within_class_covariance(whitening(samples.astype(np.float32)).astype(np.float64), labels)
    assert whitening.shrinkage < 0.01
    np.testing.assert_allclose(found, np.eye(6), atol=0.05)


@pytest.mark.parametrize("n_samples", [12, 60, 3000])
def test_whitening_is_that_of_the_shrunk_covariance(n_samples):
    """``map^T C map = 1`` for the within-class covariance C shrunk as scikit-learn shrinks."""
    samples, labels, statistics = statistics_of(n_samples)
    whitening = Whitening.of(statistics)
    covariance = within_class_covariance(samples, labels)
    s = oracle_approximating_shrinkage(covariance, n_samples - 4)
    assert whitening.shrinkage == pytest.approx(s)
    shrunk = (1 - s) * covariance + s * np.trace(covariance) / 6 * np.eye(6)
    np.testing.assert_allclose(whitening.map.T @ shrunk @ whitening.map, np.eye(6), atol=5e-3)
    np.testing.assert_allclose(whitening.center, statistics.means.mean(axis=0), rtol=1e-5, atol=1e-5)


def test_whitening_agrees_with_scikit_learn_on_one_class():
    """One class is a plain covariance; OAS divides by n, the whitening by n - 1."""
    random = np.random.default_rng(0)
    samples = random.normal(size=(5000, 4)) @ random.normal(size=(4, 4))
    whitening = Whitening.of(ClassStatistics("pooled").add(samples, np.zeros(5000, dtype=int)))
    found = np.linalg.inv((whitening.map @ whitening.map.T).astype(np.float64))
    np.testing.assert_allclose(found, OAS().fit(samples).covariance_, rtol=2e-3, atol=1e-3)


def test_classes_of_one_sample_leave_the_space_as_it_is():
    samples = np.random.default_rng(0).normal(size=(5, 3))
    whitening = Whitening.of(ClassStatistics("pooled").add(samples, np.arange(5)))
    assert whitening.shrinkage == 1.0
    np.testing.assert_array_equal(whitening.map, np.eye(3))


@pytest.mark.parametrize("n_samples", [100.0, 1e6])
@pytest.mark.parametrize("n_features", [10, 700])
def test_a_direction_that_stands_out_far(n_samples, n_features):
    """With hundreds of features and many samples, float32 cannot factorize it without a higher floor."""
    direction = np.random.default_rng(0).random(n_features)
    statistics = ClassStatistics.restore(
        [0, 1],
        np.array([n_samples, n_samples]),
        np.zeros((2, n_features)),
        "pooled",
        2 * n_samples * np.outer(direction, direction),
    )
    whitening = Whitening.of(statistics)
    assert np.all(np.isfinite(whitening.map))
    along, across = direction / np.linalg.norm(direction), np.eye(n_features)[0]
    across = across - (across @ along) * along
    stretch = [np.linalg.norm(d.astype(np.float32) @ whitening.map) for d in (along, across)]
    assert stretch[1] > 10 * stretch[0]


def test_what_rounding_leaves_of_a_covariance_does_not_matter():
    """Taking away the sample that made up the scatter leaves a covariance that is not positive."""
    for leftover in (-1e-20 * np.eye(3), np.diag([1e-40, 0, 0]), -np.eye(3), np.diag([-1.0, 2.0, 1.0])):
        statistics = ClassStatistics.restore(
            [0, 1], np.array([5.0, 5.0]), np.array([[1.0, 0, 0], [0, 1, 0]]), "pooled", leftover
        )
        found = unit(Whitening.of(statistics)(np.eye(3, dtype=np.float32)))
        assert np.all(np.isfinite(found))
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e6])
def test_the_unit_of_the_features_does_not_matter(scale):
    samples, labels, statistics = statistics_of(40)
    scaled = ClassStatistics("pooled").add(samples * scale, labels)
    found = unit(Whitening.of(scaled)((samples * scale).astype(np.float32)))
    np.testing.assert_allclose(found, unit(Whitening.of(statistics)(samples.astype(np.float32))), atol=1e-4)


def test_unit():
    vectors = np.array([[3.0, 4.0], [0.0, 0.0], [1e-30, 0.0]], dtype=np.float32)
    np.testing.assert_allclose(unit(vectors)[0], [0.6, 0.8], rtol=1e-6)
    assert unit(vectors)[1].tolist() == [0.0, 0.0]
    assert np.all(np.isfinite(unit(vectors)))


# --- Pieces and orders ---


@EVERY_FORM
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), n_pieces=st.integers(2, 12))
def test_any_pieces_in_any_order(form, seed, n_pieces):
    """From the same start, which fixes the constants of standardizing and the rows of the lift."""
    start, rest = np.arange(0, 150, 3), np.setdiff1d(np.arange(150), np.arange(0, 150, 3))
    together = AdaptiveMetric(**form).fit(X[start], Y[start]).partial_fit(X[rest], Y[rest])
    order = np.random.default_rng(seed).permutation(rest)
    metric = AdaptiveMetric(**form).fit(X[start], Y[start])
    for piece in np.array_split(order, n_pieces):
        metric.partial_fit(X[piece], Y[piece])
    np.testing.assert_allclose(metric.statistics_.scatter, together.statistics_.scatter, atol=1e-6)
    assert metric.whitening_.shrinkage == pytest.approx(together.whitening_.shrinkage, rel=1e-6)
    np.testing.assert_allclose(metric.transform(X), together.transform(X), atol=1e-6)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 2, 0]])
def test_one_class_at_a_time_is_all_at_once(order):
    """With neither standardizing nor a lift there is nothing that the first class decides for the others."""
    together = AdaptiveMetric().fit(X, Y)
    metric = AdaptiveMetric()
    for label in order:
        metric.partial_fit(X[label == Y], Y[label == Y])
    np.testing.assert_allclose(metric.statistics_.scatter, together.statistics_.scatter, atol=1e-6)
    for label in range(3):
        np.testing.assert_allclose(
            metric.statistics_.mean(label), together.statistics_.mean(label), atol=1e-6, rtol=1e-6
        )
    np.testing.assert_allclose(metric.transform(X), together.transform(X), atol=1e-6)


@EVERY_FORM
def test_no_sample_is_stored(form):
    random = np.random.default_rng(0)
    few, many = random.normal(size=(60, 5)) + 3, random.normal(size=(20_000, 5)) + 3
    metric = AdaptiveMetric(**form).fit(few, np.arange(60) % 3)
    before = len(pickle.dumps(metric))
    metric.partial_fit(many, np.arange(20_000) % 3)
    assert abs(len(pickle.dumps(metric)) - before) < 100


@EVERY_FORM
def test_represented_statistics_in_pieces(form, monkeypatch):
    representation = AdaptiveMetric(**form).fit(X, Y).representation_
    whole = represented_statistics(representation, X, Y)
    monkeypatch.setattr("openworld.recognition.adaptive.metric._ROWS_AT_ONCE", 7)
    pieces = represented_statistics(representation, X, Y)
    np.testing.assert_allclose(pieces.scatter, whole.scatter, atol=1e-5)
    np.testing.assert_allclose(pieces.sums, whole.sums, rtol=1e-5, atol=1e-5)


# --- Use ---


@EVERY_FORM
def test_transform(form):
    metric = AdaptiveMetric(**form).fit(X, Y)
    found = metric.transform(X)
    assert found.dtype == np.float32
    assert found.shape == (150, metric.representation_.n_dimensions)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)
    assert len(metric.get_feature_names_out()) == found.shape[1]
    # Samples of one class point the same way, those of different classes do not.
    same = np.mean([found[label == Y] @ found[label == Y].T for label in range(3)])
    other = np.mean([found[label == Y] @ found[label != Y].T for label in range(3)])
    assert same > other + 0.3


@EVERY_FORM
@pytest.mark.parametrize(
    ("samples", "labels"),
    [
        (np.repeat(X[::10], 6, axis=0), np.repeat(Y[::10], 6)),
        (np.column_stack([X, np.full(150, 0.1), np.zeros(150)]), Y),
        (np.column_stack([X, X, X]), Y),
        (X[[0, 60, 120]], [0, 1, 2]),
        (np.ones((6, 3)), [0, 0, 1, 1, 2, 2]),
        (np.zeros((4, 1)), [0, 0, 1, 1]),
        (X[:1], [0]),
    ],
    ids=["duplicates", "constant features", "repeated features", "one each", "all the same", "zero", "one"],
)
def test_little_to_learn_from(form, samples, labels):
    metric = AdaptiveMetric(**form).fit(samples, labels)
    assert np.all(np.isfinite(metric.transform(samples)))
    metric.partial_fit(samples[:1], labels[:1])
    assert np.all(np.isfinite(metric.transform(samples)))


def test_many_features_need_a_lift():
    random = np.random.default_rng(0)
    samples, labels = random.normal(size=(8, 4097)), np.arange(8) % 2
    with pytest.raises(ValueError, match=r"4097 features.*set n_lifted, for example to 2000"):
        AdaptiveMetric().fit(samples, labels)
    metric = AdaptiveMetric(n_lifted=20).fit(samples, labels)
    assert metric.transform(samples).shape == (8, 20)
    assert metric.whitening_.map.shape == (20, 20)


def test_a_negative_lift_is_refused():
    with pytest.raises(ValueError, match="'n_lifted' parameter"):
        AdaptiveMetric(n_lifted=-1).fit(X, Y)


@EVERY_FORM
@pytest.mark.parametrize(
    ("samples", "labels", "error"),
    [(X[:, :3], Y, ValueError), (X, Y.astype(str), TypeError), (X[:3], [0, 1], ValueError)],
    ids=["features", "kind of label", "number of labels"],
)
def test_a_refused_batch_changes_nothing(form, samples, labels, error):
    metric = AdaptiveMetric(**form).fit(X, Y)
    before = deepcopy(metric)
    with pytest.raises(error):
        metric.partial_fit(samples, labels)
    np.testing.assert_array_equal(metric.transform(X), before.transform(X))
    np.testing.assert_array_equal(metric.statistics_.counts, before.statistics_.counts)


@pytest.mark.parametrize("n_lifted", [0, 12])
def test_other_types_agree(n_lifted):
    counts = np.random.default_rng(0).integers(0, 255, size=(60, 6)).astype(np.uint8)
    labels = np.arange(60) % 3
    expected = AdaptiveMetric(n_lifted=n_lifted).fit(counts[:20].astype(np.float64), labels[:20])
    expected.partial_fit(counts[20:].astype(np.float64), labels[20:])
    for dtype in (np.uint8, np.float32, np.int64):
        metric = AdaptiveMetric(n_lifted=n_lifted).fit(counts[:20].astype(dtype), labels[:20])
        metric.partial_fit(counts[20:].astype(dtype), labels[20:])
        np.testing.assert_allclose(
            metric.transform(counts.astype(dtype)), expected.transform(counts), atol=1e-3
        )


def test_random_state_determines_the_lift():
    one, same, other = (AdaptiveMetric(n_lifted=12, random_state=s).fit(X, Y).transform(X) for s in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("n_classes", [3, 8])
def test_the_lift_is_stretched_along_the_directions_in_which_samples_spread(standardize, n_classes):
    random = np.random.default_rng(0)
    labels = np.arange(200) % n_classes
    centers, noise = 3 * random.normal(size=(n_classes, 6)), random.normal(size=(200, 6)) * np.arange(1, 7)
    samples = centers[labels] + noise
    metric = AdaptiveMetric(standardize=standardize, n_lifted=30, random_state=4).fit(samples, labels)
    plain = AdaptiveMetric(standardize=standardize).fit(samples, labels).representation_(samples)
    centers = [plain[labels == label if n_classes < 8 else slice(None)].mean(axis=0) for label in labels]
    # Few classes do not tell in which directions others differ, so only the spread within them counts.
    scatter = (plain - centers).T @ (plain - centers).astype(np.float64)
    degrees = 200 - (n_classes if n_classes < 8 else 1)
    shrinkage = oracle_approximating_shrinkage(scatter / degrees, degrees)
    shrunk = shrunk_covariance(scatter, shrinkage)
    drawn = replace(metric.representation_).rows
    expected = fractional_matrix_power(shrunk, 0.25) @ drawn
    expected *= np.linalg.norm(drawn) / np.linalg.norm(expected)
    assert_allclose(metric.representation_.rows, expected, atol=2e-3)
    assert not np.allclose(drawn, expected, atol=0.1)


@pytest.mark.parametrize(("standardize", "n_classes"), [(False, 3), (True, 8)])
def test_the_lift_of_many_features_is_stretched_by_the_same_root(standardize, n_classes):
    """The samples span so few dimensions that the axes leave out nothing."""
    random = np.random.default_rng(0)
    labels = np.arange(500) % n_classes
    centers, noise = random.normal(size=(n_classes, 1100)), random.normal(size=(500, 1100))
    samples = centers[labels] + noise * np.geomspace(0.1, 30, 1100)
    metric = AdaptiveMetric(standardize=standardize, n_lifted=20).fit(samples, labels)
    plain = AdaptiveMetric(standardize=standardize).fit(samples, labels).representation_(samples)
    centers = [plain[labels == label if n_classes < 8 else slice(None)].mean(axis=0) for label in labels]
    scatter = (plain - centers).T @ (plain - centers).astype(np.float64)
    degrees = 500 - (n_classes if n_classes < 8 else 1)
    shrinkage = oracle_approximating_shrinkage(scatter / degrees, degrees)
    root = fractional_matrix_power(shrunk_covariance(scatter, shrinkage), 0.25)
    axes = metric.representation_.axes.astype(np.float64)
    found = np.eye(len(root)) + axes @ axes.T
    assert_allclose(found / np.trace(found), root / np.trace(root), atol=1e-6)
    assert np.trace(found) > 1.01 * len(root)


def test_the_order_of_samples_makes_no_difference_to_the_axes():
    random = np.random.default_rng(0)
    labels, samples = np.arange(450) % 9, random.normal(size=(450, 1100)).astype(np.float32)
    order = random.permutation(450)
    one, other = (
        AdaptiveMetric(n_lifted=4).fit(samples[some], labels[some]).representation_.rows
        for some in (slice(None), order)
    )
    np.testing.assert_array_equal(one, other)


def test_too_few_samples_of_many_features_do_not_stretch_the_lift():
    random = np.random.default_rng(0)
    for n_samples, few in ((439, True), (440, False)):
        samples, labels = random.normal(size=(n_samples, 1100)), np.arange(n_samples) % 9
        axes = AdaptiveMetric(n_lifted=12).fit(samples, labels).representation_.axes
        assert (axes is None) == few


def test_too_few_samples_do_not_stretch_the_lift():
    for n_samples, few in ((7, True), (8, False)):
        representation = AdaptiveMetric(n_lifted=12).fit(X[:n_samples], Y[:n_samples]).representation_
        assert np.array_equal(representation.rows, replace(representation).rows) == few


def test_samples_that_are_all_the_same_do_not_stretch_the_lift():
    representation = AdaptiveMetric(n_lifted=12).fit(np.ones((20, 3)), np.arange(20) % 2).representation_
    assert np.array_equal(representation.rows, replace(representation).rows)
    of_many = AdaptiveMetric(n_lifted=12).fit(np.ones((600, 1100)), np.arange(600) % 2)
    assert of_many.representation_.axes is None


def test_random_fourier_features_are_at_the_scale_of_a_class():
    """By the inverse fourth root of the shrunk covariance within the classes, if there are enough samples."""
    random = np.random.default_rng(0)
    labels = np.arange(60) % 3
    samples = 9 * random.normal(size=(3, 6))[labels] + random.normal(size=(60, 6)) * np.arange(1, 7)
    parameters = {"standardize": True, "directions": False}
    for n_samples, enough in ((29, False), (60, True)):
        some, codes = samples[:n_samples], labels[:n_samples]
        metric = AdaptiveMetric(**parameters, n_lifted=30).fit(some, codes)
        representation = metric.representation_
        scaled = (some - representation.mean) / representation.scale
        means = np.array([scaled[codes == code].mean(axis=0) for code in range(3)])
        within = (scaled - means[codes]).T @ (scaled - means[codes])
        shrinkage = oracle_approximating_shrinkage(within / (n_samples - 3), n_samples - 3)
        shrunk = shrunk_covariance(within / (n_samples - 3), shrinkage)
        if not enough:
            shrunk = np.eye(6) * np.trace(shrunk) / 6
        drawn = replace(representation).rows
        root = fractional_matrix_power(shrunk, 0.5)
        expected = fractional_matrix_power(shrunk, -0.25) @ drawn[:-1] / np.sqrt(2 * np.trace(root))
        assert_allclose(representation.rows[:-1], expected, atol=1e-4)
        assert_allclose(np.linalg.norm(metric.transform(some), axis=1), 1, atol=1e-5)


def test_classes_of_one_sample_have_the_scale_of_all_samples():
    random = np.random.default_rng(0)
    metric = AdaptiveMetric(standardize=True, directions=False, n_lifted=500)
    found = metric.fit(random.normal(size=(3, 4)), [0, 1, 2]).representation_(random.normal(size=(2, 4)))
    assert np.isfinite(found).all()
    assert not np.allclose(found[0], found[1], atol=0.1)


def test_it_serves_nearest_class_means():
    """The metric learns with the recognizer."""
    from openworld import NearestNonOutlier

    model = NearestNonOutlier(AdaptiveMetric(standardize=True), tau=0.9).fit(X[:100], Y[:100])
    model.partial_fit(X[100:], Y[100:])
    assert model.metric_.statistics_.counts.sum() == 150
    answers = model.predict(X)
    assert np.mean(answers[answers >= 0] == Y[answers >= 0]) > 0.85


def test_a_smaller_power_shrinks_more():
    statistics = ClassStatistics("pooled").add(*load_iris(return_X_y=True))
    plain, more = Whitening.of(statistics), Whitening.of(statistics, 0.5)
    assert 0 < plain.shrinkage < 1
    assert more.shrinkage == pytest.approx(plain.shrinkage**0.5)


@pytest.mark.parametrize("size", [1, 128, 129, 300])
def test_the_inverse_root_by_halves_is_that_of_the_whole(size):
    X = np.random.default_rng(size).normal(size=(2 * size + 5, size))
    matrix = (X.T @ X / len(X) + 0.01 * np.eye(size)).astype(np.float32)
    found = inverse_cholesky(matrix)
    expected = np.linalg.inv(np.linalg.cholesky(matrix.astype(np.float64)))
    assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    assert not np.any(np.triu(found, 1))


def test_a_matrix_that_has_no_root_is_refused():
    matrix = np.eye(300, dtype=np.float32)
    matrix[299, 299] = -1
    with pytest.raises(np.linalg.LinAlgError):
        inverse_cholesky(matrix)


@pytest.mark.parametrize("size", [1, 128, 129, 300])
@pytest.mark.parametrize("lower", [False, True])
def test_a_product_with_a_triangular_matrix_leaves_out_its_zeros(size, lower):
    random = np.random.default_rng(size)
    left, right = (random.standard_normal((n, size), dtype=np.float32) for n in (7, size))
    right = np.tril(right) if lower else np.triu(right)
    assert_allclose(times_triangular(left, right, lower=lower), left @ right, atol=1e-4)
