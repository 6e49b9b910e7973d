import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist, pdist
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler

from openworld import EuclideanMetric, NCMMetric, NearestNonOutlier

ARRAYS = ("W_", "mean_", "scale_", "biases_", "classes_")


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600], y[:600]


# --- What is learned ---


@pytest.mark.parametrize("solver", ["discriminant", "sgd"])
@pytest.mark.parametrize("form", ["distance", "dot"])
def test_same_random_state_same_metric(iris, solver, form):
    def learn(random_state):
        return NCMMetric(form=form, solver=solver, max_iter=20, random_state=random_state).fit(*iris)

    one, two, third = learn(3), learn(3), learn(4)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert one.loss_curve_ == two.loss_curve_
    assert one.held_out_loss_curve_ == two.held_out_loss_curve_
    assert not np.array_equal(one.W_, third.W_)


def test_fitting_again_starts_afresh(iris):
    metric = NCMMetric(max_iter=5).fit(*iris)
    W = metric.W_.copy()
    np.testing.assert_array_equal(metric.fit(*iris).W_, W)


def test_a_learned_metric_beats_the_plain_one_on_new_samples():
    X, y = load_digits(return_X_y=True)
    train, test = np.arange(0, 1797, 2), np.arange(1, 1797, 2)

    def accuracy(metric):
        Z = metric.transform(X)
        means = np.array([Z[train][y[train] == c].mean(axis=0) for c in range(10)])
        return np.mean(cdist(Z[test], means).argmin(axis=1) == y[test])

    learned = accuracy(NCMMetric().fit(X[train], y[train]))
    assert learned > 0.94
    assert learned > accuracy(EuclideanMetric().fit(X[train])) + 0.02


@pytest.mark.parametrize("form", ["distance", "dot"])
def test_held_out_loss_is_never_worse_than_at_the_start(digits, form):
    metric = NCMMetric(form=form).fit(*digits)
    assert min(metric.held_out_loss_curve_) <= metric.held_out_loss_curve_[0] < np.log(10)
    sgd = NCMMetric(form=form, solver="sgd", max_iter=300).fit(*digits)
    assert min(metric.held_out_loss_curve_) < sgd.held_out_loss_curve_[-1]


def test_biases_belong_to_equation_2(iris):
    assert np.all(NCMMetric(form="dot").fit(*iris).biases_ != 0)
    assert np.all(NCMMetric(form="dot", solver="sgd", max_iter=20).fit(*iris).biases_ != 0)
    np.testing.assert_array_equal(NCMMetric().fit(*iris).biases_, np.zeros(3))


@pytest.mark.parametrize("solver", ["discriminant", "sgd"])
def test_curves_go_together(iris, solver):
    metric = NCMMetric(solver=solver, max_iter=30).fit(*iris)
    curves = (metric.loss_curve_, metric.held_out_loss_curve_, metric.steps_curve_, metric.seconds_curve_)
    assert len({len(curve) for curve in curves}) == 1
    assert np.all(np.diff(metric.steps_curve_) > 0)
    assert np.all(np.diff(metric.seconds_curve_) >= 0)
    assert metric.seconds_curve_[0] > 0
    assert metric.n_iter_ == metric.steps_curve_[-1]
    assert metric.seconds_ == metric.seconds_curve_[-1]
    assert np.all(np.isfinite(metric.loss_curve_ + metric.held_out_loss_curve_))
    if solver == "sgd":
        assert metric.steps_curve_ == list(range(1, 31))


def test_callback_hears_of_every_epoch(iris):
    heard = []
    metric = NCMMetric(max_iter=8, callback=lambda *arguments: heard.append(arguments)).fit(*iris)
    assert [iteration for iteration, _, _ in heard] == list(range(1, len(heard) + 1))
    assert {n for _, n, _ in heard} == {8}
    assert [loss for _, _, loss in heard] == metric.held_out_loss_curve_[1:]


def test_callback_hears_of_sgd(iris):
    heard = []
    metric = NCMMetric(solver="sgd", max_iter=100, callback=lambda *a: heard.append(a)).fit(*iris)
    assert heard == [
        (s, 100, v) for s, v in zip(metric.steps_curve_, metric.held_out_loss_curve_, strict=True)
    ]


# --- The map ---


@pytest.mark.parametrize(
    "metric",
    [
        NCMMetric(),
        NCMMetric(2),
        NCMMetric(form="dot"),
        NCMMetric(solver="sgd", max_iter=20),
        NCMMetric(standardize=False),
        EuclideanMetric(),
        EuclideanMetric(standardize=False),
    ],
)
def test_transform_is_standardization_then_W(iris, metric):
    X, y = iris
    metric = clone(metric).fit(X[:120], y[:120])
    scaler = StandardScaler(with_std=metric.standardize).fit(X[:120])
    np.testing.assert_allclose(metric.mean_, scaler.mean_)
    expected = scaler.transform(X) @ metric.W_
    np.testing.assert_allclose(metric.transform(X), expected, rtol=1e-6, atol=1e-9)
    assert metric.transform(X).shape[1] == metric.W_.shape[1] == metric._n_features_out


def test_one_sample_at_a_time_is_the_same_map(iris):
    metric = NCMMetric().fit(*iris)
    one_by_one = np.vstack([metric.transform(x[np.newaxis]) for x in iris[0]])
    np.testing.assert_allclose(metric.transform(iris[0]), one_by_one, rtol=1e-10, atol=1e-12)


def test_features_of_any_unit_give_the_same_distances(iris):
    X, y = iris
    units = np.array([1e-3, 1.0, 50.0, 1e4])
    a, b = NCMMetric().fit(X, y), NCMMetric().fit(X * units + 7, y)
    np.testing.assert_allclose(pdist(a.transform(X)), pdist(b.transform(X * units + 7)), rtol=1e-5)


def test_plain_euclidean_distance_is_left_as_it_is(iris):
    X = iris[0]
    Z = EuclideanMetric(standardize=False).fit(X).transform(X)
    np.testing.assert_allclose(np.linalg.norm(Z[0] - Z[1:], axis=1), np.linalg.norm(X[0] - X[1:], axis=1))


@pytest.mark.parametrize("metric", [NCMMetric(), NCMMetric(solver="sgd", max_iter=10), EuclideanMetric()])
@pytest.mark.parametrize("value", [0.0, 3.0, 1e6, 0.1])
def test_constant_features_are_harmless(iris, metric, value):
    X, y = iris
    with_constant = np.column_stack([X, np.full(len(X), value)])
    metric = clone(metric).fit(with_constant, y)
    assert metric.scale_[4] == 1
    Z = metric.transform(with_constant)
    assert np.all(np.isfinite(Z))
    np.testing.assert_allclose(
        Z, ((with_constant - metric.mean_) / metric.scale_) @ metric.W_, rtol=1e-6, atol=1e-6
    )
    single = clone(metric).fit(with_constant.astype(np.float32), y)
    assert single.scale_[4] == 1


def test_the_rounding_of_a_long_sum_is_not_taken_for_a_deviation():
    constant = np.full((200_000, 1), 0.1)
    assert EuclideanMetric().fit(constant).scale_.tolist() == [1.0]
    assert EuclideanMetric().fit(constant.astype(np.float32)).scale_.tolist() == [1.0]


def test_a_feature_that_varies_little_is_still_a_feature(iris):
    X = iris[0]
    tiny = np.column_stack([X[:, :3], X[:, 3] * 1e-9])
    metric = EuclideanMetric().fit(tiny)
    np.testing.assert_allclose(metric.transform(tiny).std(axis=0), 1)


@pytest.mark.parametrize("metric", [NCMMetric(), NCMMetric(solver="sgd", max_iter=10), EuclideanMetric()])
def test_float32_in_float32_out(iris, metric):
    X, y = iris
    single = clone(metric).fit(X.astype(np.float32), y)
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    assert single.transform(X).dtype == np.float64
    assert single.W_.dtype == single.mean_.dtype == single.scale_.dtype == np.float64
    np.testing.assert_allclose(single.transform(X.astype(np.float32)), single.transform(X), atol=1e-3)
    double = clone(metric).fit(X, y)
    np.testing.assert_allclose(single.mean_, double.mean_, rtol=1e-6)
    np.testing.assert_allclose(single.scale_, double.scale_, rtol=1e-5)


def test_float32_statistics_are_summed_in_float64():
    X = np.full((30_000, 2), 16_777.0, dtype=np.float32)
    X[::2] += 2
    metric = EuclideanMetric().fit(X)
    np.testing.assert_allclose(metric.mean_, 16_778.0, rtol=1e-12)
    np.testing.assert_allclose(metric.scale_, 1.0, rtol=1e-9)


def test_names_of_the_new_features(iris):
    frame = pd.DataFrame(iris[0], columns=["a", "b", "c", "d"])
    metric = NCMMetric(2).fit(frame, iris[1])
    assert metric.get_feature_names_out().tolist() == ["ncmmetric0", "ncmmetric1"]
    with pytest.raises(ValueError, match="feature names should match"):
        metric.transform(frame[["b", "a", "c", "d"]])


# --- Only the samples of fit count ---


def test_standardization_is_that_of_the_starting_classes(iris):
    X, y = iris
    model = NearestNonOutlier(tau=5.0).fit(X[y < 2], y[y < 2])
    mean, scale = model.metric_.mean_.copy(), model.metric_.scale_.copy()
    np.testing.assert_allclose(mean, X[y < 2].mean(axis=0))
    np.testing.assert_allclose(scale, X[y < 2].std(axis=0))
    model.partial_fit(X[y == 2], y[y == 2])
    np.testing.assert_array_equal(model.metric_.mean_, mean)
    np.testing.assert_array_equal(model.metric_.scale_, scale)


# --- Few samples ---


@pytest.mark.parametrize("solver", ["discriminant", "sgd"])
def test_a_class_of_one_sample(iris, solver):
    X, y = np.vstack([iris[0][:100], [[20.0, 20.0, 20.0, 20.0]]]), np.append(iris[1][:100], 9)
    metric = NCMMetric(solver=solver, max_iter=10).fit(X, y)
    assert metric.classes_.tolist() == [0, 1, 9]
    assert np.all(np.isfinite(metric.transform(X)))


def test_every_class_of_one_sample_leaves_nothing_to_hold_out():
    X, y = np.eye(4), list("abcd")
    metric = NCMMetric().fit(X, y)
    Z = metric.transform(X)
    distances = np.linalg.norm(Z[:, None] - Z, axis=2)
    assert np.all(distances[~np.eye(4, dtype=bool)] > 1)
    assert metric.steps_curve_ == [0]
    assert np.all(np.isfinite(NCMMetric(solver="sgd", max_iter=5).fit(X, y).W_))


@pytest.mark.parametrize("fraction", [1e-9, 0.5, 0.999])
def test_any_share_can_be_held_out(iris, fraction):
    metric = NCMMetric(validation_fraction=fraction, max_iter=3).fit(*iris)
    assert np.all(np.isfinite(metric.held_out_loss_curve_))


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5, np.nan])
def test_a_share_that_is_none_is_refused(iris, fraction):
    with pytest.raises(ValueError, match="'validation_fraction' parameter"):
        NCMMetric(validation_fraction=fraction).fit(*iris)


def test_two_samples_of_the_same_place_in_two_classes():
    metric = NCMMetric().fit(np.zeros((4, 2)), [0, 0, 1, 1])
    assert np.all(np.isfinite(metric.W_))
    np.testing.assert_allclose(metric.transform(np.zeros((1, 2))), 0)


# --- What is refused ---


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "'n_components' parameter"),
        ({"n_components": -3}, "'n_components' parameter"),
        ({"n_components": 2.5}, "'n_components' parameter"),
        ({"n_components": 5}, "n_components=5 must be between 1 and the number of features, 4"),
        ({"form": "cosine"}, "'form' parameter"),
        ({"solver": "adam"}, "'solver' parameter"),
        ({"max_iter": 0}, "'max_iter' parameter"),
        ({"max_iter": -1, "solver": "sgd"}, "'max_iter' parameter"),
        ({"max_iter": 1.5}, "'max_iter' parameter"),
        ({"learning_rate": 0}, "'learning_rate' parameter"),
        ({"learning_rate": -0.1}, "'learning_rate' parameter"),
        ({"learning_rate": np.nan}, "'learning_rate' parameter"),
        ({"learning_rate": "fast"}, "'learning_rate' parameter"),
    ],
)
def test_bad_parameters(iris, parameters, message):
    with pytest.raises(ValueError, match=message):
        NCMMetric(**parameters).fit(*iris)


def test_a_descent_that_runs_away_names_the_learning_rate(digits):
    with pytest.raises(ValueError, match=r"not finite.*lower learning_rate"):
        NCMMetric(solver="sgd", learning_rate=1e6, max_iter=200).fit(*digits)


@pytest.mark.parametrize("metric", [NCMMetric(), EuclideanMetric()])
@pytest.mark.parametrize("size", [1e200, 1e307])
def test_features_too_large_for_their_variance(iris, metric, size):
    with pytest.raises(ValueError, match=r"too large.*Scale X down"):
        clone(metric).fit(iris[0] * size, iris[1])


def test_one_class_cannot_teach_a_metric(iris):
    with pytest.raises(ValueError, match="at least 2 classes; got 1 class"):
        NCMMetric().fit(iris[0][:50], iris[1][:50])


def test_unfitted():
    for metric in (NCMMetric(), EuclideanMetric()):
        with pytest.raises(NotFittedError):
            metric.transform([[1.0]])


def test_so_many_features_that_memory_runs_out_are_refused_with_advice():
    X = np.zeros((4, 20_000), dtype=np.float32)
    X[:, 0] = [0, 1, 8, 9]
    with pytest.raises(
        ValueError, match=r"20,000 features needs about 6.8 GB.*OpenWorldRecognizer.*solver='sgd'"
    ):
        NCMMetric(8).fit(X, [0, 0, 1, 1])
    assert NCMMetric(8, solver="sgd", max_iter=1).fit(X, [0, 0, 1, 1]).W_.shape == (20_000, 8)
