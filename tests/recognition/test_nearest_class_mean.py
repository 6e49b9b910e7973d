import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import load_digits, load_iris
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import MinMaxScaler

from openworld import CrossClassValidation, EuclideanMetric, NCMMetric, NearestClassMean, SoftmaxThreshold
from openworld.recognition import ClassStatistics, nearest_class_mean


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:700], y[:700], X[700:1100]


def equation_1(Z, means):
    """p(c|x) with every distance and every exponential written out."""
    p = np.empty((len(Z), len(means)))
    for i, z in enumerate(Z):
        for c, mean in enumerate(means):
            p[i, c] = np.exp(-0.5 * np.sum((z - mean) ** 2))
    return p / p.sum(axis=1, keepdims=True)


# --- NearestClassMean ---


@pytest.mark.parametrize(
    "metric", [NCMMetric(), NCMMetric(5), EuclideanMetric(standardize=False), MinMaxScaler()]
)
def test_predicts_as_the_nearest_centroid_of_projected_data(digits, metric):
    X, y, new = digits
    used = X.std(axis=0) > 0
    model = NearestClassMean(metric).fit(X[:, used], y)
    centroids = NearestCentroid().fit(model.metric_.transform(X[:, used]), y)
    np.testing.assert_array_equal(
        model.predict(new[:, used]), centroids.predict(model.metric_.transform(new[:, used]))
    )


def test_probabilities_are_equation_1(iris):
    X, y = iris
    model = NearestClassMean(EuclideanMetric()).fit(X, y)
    means = np.array([X[y == c].mean(axis=0) for c in range(3)])
    expected = equation_1(model.metric_.transform(X), model.metric_.transform(means))
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-9)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(expected), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[model.predict_proba(X).argmax(axis=1)], model.predict(X))
    np.testing.assert_allclose(softmax(model.decision_function(X), axis=1), expected, rtol=1e-9)


def test_decision_function_is_minus_half_the_squared_distance(iris):
    X, y = iris
    model = NearestClassMean(EuclideanMetric(standardize=False)).fit(X, y)
    means = np.array([X[y == c].mean(axis=0) for c in range(3)])
    expected = -0.5 * np.sum((X[:, None] - means) ** 2, axis=2)
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-9, atol=1e-12)


def test_columns_stand_in_the_order_of_classes_whatever_the_order_of_learning(iris):
    X, y = iris
    names = np.array(["fox", "ape", "cat"])[y]
    model = NearestClassMean(EuclideanMetric()).fit(X, names)
    late = NearestClassMean(EuclideanMetric()).fit(X, names)
    late.forget_class("ape")
    late.partial_fit(X[names == "ape"], names[names == "ape"])
    assert model.classes_.tolist() == late.classes_.tolist() == ["ape", "cat", "fox"]
    np.testing.assert_allclose(late.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(late.predict(X), model.predict(X))
    for c, name in enumerate(model.classes_):
        own = model.decision_function(X[names == name].mean(axis=0, keepdims=True))
        assert own.argmax() == c


def test_partial_fit_gives_the_means_of_fit(iris):
    X, y = iris
    whole = NearestClassMean(EuclideanMetric()).fit(X, y)
    parts = NearestClassMean(EuclideanMetric()).fit(X, y).without_classes()
    for rows in np.array_split(np.random.default_rng(0).permutation(len(X)), 7):
        parts.partial_fit(X[rows], y[rows])
    for c in range(3):
        np.testing.assert_allclose(parts.statistics_.mean(c), X[y == c].mean(axis=0), rtol=1e-12)
        assert parts.statistics_.count(c) == 50
    np.testing.assert_allclose(parts.decision_function(X), whole.decision_function(X), rtol=1e-9, atol=1e-10)
    np.testing.assert_array_equal(parts.predict(X), whole.predict(X))


def test_partial_fit_on_an_unfitted_recognizer_is_fit(iris):
    X, y = iris
    a, b = NearestClassMean().fit(X, y), NearestClassMean().partial_fit(X, y)
    np.testing.assert_array_equal(a.decision_function(X), b.decision_function(X))


def test_never_answers_unknown(iris):
    X, y = iris
    model = NearestClassMean().fit(X, y)
    far = np.vstack([s * np.eye(4) for s in (1e3, -1e3, 1e9, -1e9)])
    assert set(model.predict(far)) <= {0, 1, 2}


@pytest.mark.parametrize("size", [1e6, 1e9, 1e100])
def test_probabilities_of_far_samples_are_numbers(iris, size):
    X, y = iris
    model = NearestClassMean(EuclideanMetric()).fit(X, y)
    far = size * np.vstack([np.eye(4), -np.eye(4)])
    p = model.predict_proba(far)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    if size < 1e10:  # beyond, all means are equally far to the last bit
        np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(far))


def test_equal_distances_go_to_the_first_class():
    model = NearestClassMean(EuclideanMetric(standardize=False)).fit([[1.0], [-1.0]], ["b", "a"])
    assert model.predict([[0.0]]).tolist() == ["a"]


def test_accuracy_of_the_paper_metric_on_digits():
    X, y = load_digits(return_X_y=True)
    assert NearestClassMean().fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.94


# --- SoftmaxThreshold ---


def test_accepts_exactly_where_the_probability_exceeds_exp_minus_tau(iris):
    X, y = iris
    for tau in (0.05, 0.2, 0.6):
        model = SoftmaxThreshold(EuclideanMetric(), tau=tau).fit(X, y)
        p = model.predict_proba(X)
        accepted = p.max(axis=1) > np.exp(-model.tau_)
        expected = np.where(accepted, model.classes_[p.argmax(axis=1)], -1)
        np.testing.assert_array_equal(model.predict(X), expected)
        np.testing.assert_allclose(model.decision_function(X), np.log(p) + tau, rtol=1e-9, atol=1e-12)
        assert 0 < accepted.mean() < 1


def test_probabilities_do_not_depend_on_tau(iris):
    X, y = iris
    plain = NearestClassMean(EuclideanMetric()).fit(X, y)
    thresholded = SoftmaxThreshold(EuclideanMetric(), tau=0.1).fit(X, y)
    np.testing.assert_array_equal(thresholded.predict_proba(X), plain.predict_proba(X))


def test_large_tau_accepts_all_and_small_tau_only_the_certain(iris):
    X, y = iris
    model = SoftmaxThreshold(EuclideanMetric(), tau=np.log(3) + 1e-9).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), NearestClassMean(EuclideanMetric()).fit(X, y).predict(X))
    model.tau_ = 1e-30
    assert np.all(model.predict(X) == -1)


@pytest.mark.parametrize("size", [1e3, 1e6, 1e20])
def test_far_away_a_sample_is_accepted_for_sure(iris, size):
    """The paper's negative example: the normalization keeps the softmax from decaying."""
    X, y = iris
    model = SoftmaxThreshold(EuclideanMetric(), tau=1e-6).fit(X, y)
    direction = np.array([[1.0, 0.3, -0.2, 0.9]])
    assert model.predict_proba(size * direction).max() == pytest.approx(1)
    assert model.predict(size * direction)[0] in model.classes_
    assert not model.accepts_bounded_region


def test_between_two_classes_a_sample_is_unknown():
    model = SoftmaxThreshold(EuclideanMetric(standardize=False), tau=0.5).fit([[0.0], [10.0]], ["a", "b"])
    assert model.predict([[0.0], [5.0], [10.0]]).tolist() == ["a", "unknown", "b"]


def test_tau_by_cross_class_validation(iris):
    X, y = iris
    calibration = CrossClassValidation(n_folds=2, random_state=1)
    model = SoftmaxThreshold(EuclideanMetric(), tau=calibration).fit(X, y)
    assert model.tau_ == pytest.approx(np.mean(model.calibration_.fold_taus))
    assert len(model.calibration_.fold_taus) == 2
    assert 0 < model.tau_ < np.log(3)


def test_calibrated_outlyingness_is_minus_log_probability(iris):
    X, y = iris
    model = SoftmaxThreshold(EuclideanMetric(), tau=0.1).fit(X, y)
    outlying = nearest_class_mean._minus_log_p(model.class_means_.squared_distances(X))
    np.testing.assert_allclose(outlying, -np.log(model.predict_proba(X)), rtol=1e-7, atol=1e-12)


def test_learning_from_statistics_is_learning_from_their_samples(iris):
    X, y = iris
    by_samples, by_statistics = (
        NearestClassMean(EuclideanMetric()).fit(X[y < 2], y[y < 2]) for _ in range(2)
    )
    assert by_samples.metric_is_frozen
    by_samples.partial_fit(X[::2], y[::2])
    by_statistics.learn_statistics(ClassStatistics("none").add(X[::2], y[::2]))
    by_statistics.learn_statistics(ClassStatistics("none"))  # of nothing
    np.testing.assert_array_equal(by_statistics.statistics_.sums, by_samples.statistics_.sums)
    np.testing.assert_array_equal(by_statistics.nearest_classes(X)[1], by_samples.nearest_classes(X)[1])
    with pytest.raises(ValueError, match="means unknown"):
        by_statistics.learn_statistics(ClassStatistics("none").add(X, np.full(len(X), -1)))
    assert by_statistics.classes_.tolist() == [0, 1, 2]


def test_a_metric_that_learns_is_not_frozen(iris):
    assert not NearestClassMean(MinMaxScaler()).fit(*iris).metric_is_frozen
