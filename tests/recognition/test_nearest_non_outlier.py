import tracemalloc
from copy import deepcopy
from math import gamma, log, pi

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from openworld import (
    Calibration,
    CrossClassValidation,
    EuclideanMetric,
    FalseAcceptRate,
    KnownRecall,
    NCMMetric,
    NearestClassMean,
    NearestNonOutlier,
    SoftmaxThreshold,
)
from openworld.recognition import class_means


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


@pytest.fixture
def model(iris):
    return NearestNonOutlier(EuclideanMetric(), tau=1.5).fit(*iris)


def blobs(n_classes=5, n_features=3, per_class=20, spread=0.3):
    random = np.random.default_rng(5)
    centers = 8 * random.normal(size=(n_classes, n_features))
    y = np.repeat(np.arange(n_classes), per_class)
    return centers[y] + spread * random.normal(size=(len(y), n_features)), y


def naive_distances(model, X):
    """|W'x - W'mu_i| by the definition, from what the model says it has learned, class by class."""
    metric = model.metric_
    distances = np.empty((len(X), len(model.classes_)))
    for i, x in enumerate(X):
        for c, label in enumerate(model.classes_):
            difference = (x - model.statistics_.mean(label)) / metric.scale_
            distances[i, c] = np.sqrt(np.sum((metric.W_.T @ difference) ** 2))
    return distances


# --- Eq. 8 ---


@pytest.mark.parametrize("metric", [EuclideanMetric(), NCMMetric(), NCMMetric(2), NCMMetric(form="dot")])
def test_decision_function_has_the_sign_of_equation_8(iris, metric):
    X, y = iris
    model = NearestNonOutlier(metric, tau=2.0).fit(X, y)
    model.tau_ = float(np.median(naive_distances(model, X).min(axis=1)))
    m = model.metric_.W_.shape[1]
    bracket = 1 - naive_distances(model, X) / model.tau_
    f = gamma(m / 2 + 1) / (pi ** (m / 2) * model.tau_**m) * bracket
    np.testing.assert_allclose(model.decision_function(X), bracket, rtol=1e-6, atol=1e-6)
    expected = [model.classes_[f[i].argmax()] if f[i].max() > 0 else "unknown" for i in range(len(X))]
    assert model.predict(X).tolist() == expected
    assert 20 < expected.count("unknown") < 130


@pytest.mark.parametrize("m", [2, 3])
def test_log_density_is_the_logarithm_of_equation_8(m):
    X, y = blobs(n_features=m)
    model = NearestNonOutlier(EuclideanMetric(standardize=False), tau=1.7).fit(X, y)
    new = X + np.random.default_rng(0).normal(size=X.shape)
    means = np.array([X[y == c].mean(axis=0) for c in range(5)])
    f = gamma(m / 2 + 1) / (pi ** (m / 2) * 1.7**m) * (1 - cdist(new, means) / 1.7)
    found = model.log_density(new)
    np.testing.assert_allclose(np.exp(found), np.maximum(f, 0), rtol=1e-9, atol=1e-15)
    assert np.array_equal(np.isneginf(found), f <= 0)
    assert 0 < np.mean(f > 0) < 1


def test_equation_8_has_a_ball_as_its_base():
    """The constant is one over the volume of the ball of radius tau, here 2 tau and pi tau^2."""
    at_mean = [
        NearestNonOutlier(EuclideanMetric(standardize=False), tau=3.0)
        .fit(np.array([[0.0] * m, [50.0] * m]), [0, 1])
        .log_density(np.zeros((1, m)))[0, 0]
        for m in (1, 2)
    ]
    np.testing.assert_allclose(at_mean, [-log(2 * 3), -log(pi * 9)])


def test_log_density_is_finite_where_the_literal_constant_underflows():
    random = np.random.default_rng(0)
    X, y = 100 * random.normal(size=(6, 512)), np.repeat([0, 1], 3)
    model = NearestNonOutlier(EuclideanMetric(standardize=False), tau=5000.0).fit(X, y)
    literal_constant = np.float64(5000.0) ** -512
    assert literal_constant == 0
    found = model.log_density(X)
    assert np.all(np.isfinite(found))
    np.testing.assert_array_equal(found.argmax(axis=1), y)
    assert -3490 < found.max() < -3480  # about 1e-1514, as worked out by hand
    assert np.all(model.predict(X) == y)


def test_predict_agrees_with_decision_function(digits):
    X, y = digits
    model = NearestNonOutlier().fit(X[:900], y[:900])
    for samples in (X[900:], X[900:].astype(np.float32), X[900:].astype(np.uint8)):
        decision = model.decision_function(samples)
        clear = np.abs(decision.max(axis=1)) > 1e-5
        expected = np.where(decision.max(axis=1) > 0, model.classes_[decision.argmax(axis=1)], -1)
        np.testing.assert_array_equal(model.predict(samples)[clear], expected[clear])
        assert clear.mean() > 0.99


def test_a_sample_at_distance_tau_is_unknown_and_just_below_is_not():
    X, y = [[-10.0], [10.0]], ["a", "b"]
    model = NearestNonOutlier(EuclideanMetric(standardize=False), tau=2.0).fit(X, y)
    samples = np.array([[8.0], [np.nextafter(8.0, 9)], [12.0], [np.nextafter(12.0, 9)], [10.0], [0.0]])
    assert model.predict(samples).tolist() == ["unknown", "b", "unknown", "b", "b", "unknown"]
    assert model.predict(-samples).tolist() == ["unknown", "a", "unknown", "a", "a", "unknown"]


def test_any_positive_tau_works_with_float32():
    X = np.array([[0.0], [10.0]], dtype=np.float32)
    model = NearestNonOutlier(EuclideanMetric(standardize=False), tau=1e300).fit(X, ["a", "b"])
    assert model.predict(X + 1).tolist() == ["a", "b"]
    model.tau_ = 1e-300
    assert model.predict(X).tolist() == ["a", "b"]
    assert model.predict(X + 1).tolist() == ["unknown", "unknown"]


# --- Far away ---


@pytest.mark.parametrize(
    "metric",
    [EuclideanMetric(), EuclideanMetric(standardize=False), NCMMetric(), NCMMetric(form="dot"),
     NCMMetric(solver="sgd", max_iter=200)],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_far_away_in_every_direction_is_unknown(iris, metric, dtype):
    X, y = iris
    model = NearestNonOutlier(metric).fit(X, y)
    assert np.linalg.matrix_rank(model.metric_.W_) == 4
    random = np.random.default_rng(0)
    directions = np.vstack([np.eye(4), -np.eye(4), random.normal(size=(500, 4))])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    # At this distance along the direction that W shortens most, everything is an outlier.
    reach = np.linalg.norm(naive_distances(model, X[:1])) + 2 * model.tau_
    shortening = np.linalg.svd(model.metric_.W_ / model.metric_.scale_[:, None])[1].min()
    for size in (reach / shortening, 1e6, 1e15, 1e30):
        far = (X.mean(axis=0) + size * directions).astype(dtype)
        assert np.all(model.predict(far) == "unknown")
        assert np.all(model.decision_function(far) < 0)
    assert np.mean(model.predict(X.astype(dtype)) == y) > 0.7


def test_overflow_far_away_is_unknown_too(model):
    far = np.vstack([np.eye(4), -np.eye(4)])
    for size in (1e150, 1e200, 1e300):
        assert np.all(model.predict(size * far) == "unknown")
    assert np.all(model.predict((3e38 * far).astype(np.float32)) == "unknown")


def test_below_full_rank_nothing_is_far_along_the_null_space(iris):
    """Where m < D the accepted region is a cylinder, not a ball.

    Theorem 2 bounds the risk within a ball of finite radius r_o only; along the D - m directions that W
    projects away the distance does not grow at all, and a sample stays what it was.
    """
    X, y = iris
    model = NearestNonOutlier(NCMMetric(2), tau=4.0).fit(X, y)
    folded = model.metric_.W_ / model.metric_.scale_[:, np.newaxis]
    unseen = null_space(folded.T)
    assert unseen.shape == (4, 2)
    for direction in unseen.T:
        np.testing.assert_allclose(
            model.decision_function(X + 1e4 * direction), model.decision_function(X), atol=1e-6
        )
        np.testing.assert_array_equal(model.predict(X + 1e4 * direction), model.predict(X))
        assert "setosa" in model.predict(X + 1e4 * direction)
    seen = folded @ np.array([1.0, -1.0])
    assert np.all(model.predict(X + 1e4 * seen) == "unknown")


def test_default_metric_has_full_rank_up_to_512_features():
    X, y = blobs(n_features=40)
    assert np.linalg.matrix_rank(NearestNonOutlier(tau=1.0).fit(X, y).metric_.W_) == 40


# --- Learning more ---


@pytest.mark.parametrize("kind", [NearestNonOutlier, NearestClassMean, SoftmaxThreshold])
def test_learning_changes_no_other_class(digits, kind):
    X, y = digits
    model = kind(NCMMetric(max_iter=5)).fit(X[y < 6], y[y < 6])
    means = {c: model.statistics_.mean(c).copy() for c in range(6)}
    projected = model.class_means_.index.means.copy()
    W, tau = model.metric_.W_.copy(), getattr(model, "tau_", None)
    metric = model.metric_
    model.partial_fit(X[y == 7], y[y == 7])
    assert model.classes_.tolist() == [0, 1, 2, 3, 4, 5, 7]
    for c, mean in means.items():
        np.testing.assert_array_equal(model.statistics_.mean(c), mean)
    np.testing.assert_array_equal(model.class_means_.index.means[:6], projected)
    assert model.metric_ is metric
    np.testing.assert_array_equal(metric.W_, W)
    assert getattr(model, "tau_", None) == tau
    np.testing.assert_allclose(model.statistics_.mean(7), X[y == 7].mean(axis=0))


def test_new_classes_are_unknown_first_and_recognized_afterwards(digits):
    X, y = digits
    test = np.arange(len(y)) % 3 == 0
    start, new = y < 6, y >= 6
    metric, calibration = NCMMetric(standardize=False), CrossClassValidation(validation_fraction=0.3)
    model = NearestNonOutlier(metric, calibration).fit(X[start & ~test], y[start & ~test])
    assert np.mean(model.predict(X[new & test]) == -1) > 0.4
    before = np.mean(model.predict(X[start & test]) == y[start & test])
    model.partial_fit(X[new & ~test], y[new & ~test])
    assert np.mean(model.predict(X[new & test]) == y[new & test]) > 0.6
    assert np.mean(model.predict(X[start & test]) == y[start & test]) > before - 0.1


def test_more_samples_move_the_mean_of_their_class_only(model, iris):
    X, _ = iris
    before = model.decision_function(X)
    model.partial_fit([[50.0, 50.0, 50.0, 50.0]], ["setosa"])
    mean = (X[:50].sum(axis=0) + 50) / 51
    np.testing.assert_allclose(model.statistics_.mean("setosa"), mean)
    after = model.decision_function(X)
    np.testing.assert_allclose(after[:, 1:], before[:, 1:], atol=1e-7)
    assert not np.allclose(after[:, 0], before[:, 0])
    np.testing.assert_allclose(after, 1 - naive_distances(model, X) / 1.5, rtol=1e-6, atol=1e-6)


def test_pieces_and_order_make_no_difference(digits):
    X, y = digits
    start = y < 5
    whole = NearestNonOutlier(NCMMetric(max_iter=3), tau=20.0).fit(X[start], y[start])
    pieces = deepcopy(whole)
    whole.partial_fit(X[~start], y[~start])
    later = np.random.default_rng(1).permutation(np.flatnonzero(~start))
    for rows in np.array_split(later, 9):
        pieces.partial_fit(X[rows], y[rows])
    assert pieces.classes_.tolist() == whole.classes_.tolist() == list(range(10))
    np.testing.assert_allclose(pieces.decision_function(X), whole.decision_function(X), atol=1e-7)
    np.testing.assert_array_equal(pieces.predict(X), whole.predict(X))


def test_classes_argument_is_allowed_as_in_scikit_learn(model, iris):
    model.partial_fit(iris[0][:2], ["new", "new"], classes=["new", "setosa"])
    assert "new" in model.classes_
    with pytest.raises(ValueError, match="not in `classes`"):
        model.partial_fit(iris[0][:2], ["newer", "new"], classes=["new", "setosa"])


def test_a_metric_that_can_learn_on_is_refreshed(iris):
    X, y = iris
    scaler = StandardScaler()
    model = NearestNonOutlier(scaler, tau=2.0).fit(X[:100], y[:100])
    np.testing.assert_allclose(model.metric_.mean_, X[:100].mean(axis=0))
    first = model.metric_
    model.partial_fit(X[100:], y[100:])
    np.testing.assert_allclose(model.metric_.mean_, X.mean(axis=0))
    np.testing.assert_allclose(first.mean_, X[:100].mean(axis=0))
    assert not hasattr(scaler, "mean_")
    # All means, the old classes' too, are where the new metric puts them.
    Z = StandardScaler().fit(X).transform(X)
    means = np.array([Z[y == c].mean(axis=0) for c in model.classes_])
    np.testing.assert_allclose(model.decision_function(X), 1 - cdist(Z, means) / 2, atol=1e-6)


def test_a_refreshed_metric_has_seen_every_sample_once(iris):
    X, y = iris
    model = NearestNonOutlier(StandardScaler()).fit(X, y)
    assert model.metric_.n_samples_seen_ == len(X)
    np.testing.assert_allclose(model.metric_.mean_, X.mean(axis=0))


def test_a_metric_is_learned_without_the_samples_held_out_for_tau(iris):
    X, y = iris
    calibration = CrossClassValidation(validation_fraction=0.4, random_state=2)
    model = NearestNonOutlier(EuclideanMetric(), tau=calibration).fit(X, y)
    held = calibration.held_out(np.unique(y, return_inverse=True)[1])
    assert held.sum() == 60
    np.testing.assert_allclose(model.metric_.mean_, X[~held].mean(axis=0))
    # The means in use are those of all samples.
    np.testing.assert_allclose(model.statistics_.mean("setosa"), X[:50].mean(axis=0))


# --- tau ---


def test_tau_given_as_a_number(iris):
    model = NearestNonOutlier(EuclideanMetric(), tau=2).fit(*iris)
    assert model.tau_ == 2.0
    assert model.calibration_ is None
    np.testing.assert_allclose(model.metric_.mean_, iris[0].mean(axis=0))


def test_tau_by_default_and_by_a_calibration_object(iris):
    default = NearestNonOutlier(EuclideanMetric()).fit(*iris)
    same = NearestNonOutlier(EuclideanMetric(), tau=CrossClassValidation()).fit(*iris)
    assert isinstance(default.calibration_, Calibration)
    assert default.calibration_ == same.calibration_
    assert default.tau_ == default.calibration_.tau == pytest.approx(np.mean(default.calibration_.fold_taus))
    strict = NearestNonOutlier(EuclideanMetric(), tau=CrossClassValidation(FalseAcceptRate(0.01))).fit(*iris)
    lax = NearestNonOutlier(EuclideanMetric(), tau=CrossClassValidation(KnownRecall(0.99))).fit(*iris)
    assert strict.tau_ < default.tau_ <= lax.tau_


def test_tau_is_found_on_held_out_samples_by_the_nearest_known_mean(iris):
    """One fold done by hand."""
    X, y = iris
    calibration = CrossClassValidation(KnownRecall(1.0), n_folds=1, random_state=4)
    model = NearestNonOutlier(EuclideanMetric(standardize=False), tau=calibration).fit(X, y)
    held = calibration.held_out(np.unique(y, return_inverse=True)[1])
    means = np.array([X[(y == c) & ~held].mean(axis=0) for c in model.classes_])
    distances = cdist(X[held], means)
    possible = []
    for left_out in range(3):
        known = np.delete(np.arange(3), left_out)
        own = distances[y[held] != model.classes_[left_out]][:, known].min(axis=1)
        possible.append(own.max())
    # All known samples stay accepted, and no more than that.
    assert min(abs(model.tau_ - bound) / bound for bound in possible if bound < model.tau_) < 0.2
    assert any(bound < model.tau_ for bound in possible)


@pytest.mark.parametrize("tau", [0, -1.0, np.nan, np.inf, "auto", True, [1.0]])
def test_tau_must_be_positive(iris, model, tau):
    with pytest.raises(ValueError, match="tau"):
        NearestNonOutlier(EuclideanMetric(), tau=tau).fit(*iris)
    with pytest.raises(ValueError, match="tau must be a positive number"):
        model.tau_ = tau
    assert model.tau_ == 1.5


def test_tau_can_be_changed_without_fitting(model, iris):
    X, _ = iris
    accepted = []
    for tau in (0.1, 0.5, 1.0, 5.0, np.float32(9.0)):
        model.tau_ = tau
        assert type(model.tau_) is float
        accepted.append(np.sum(model.predict(X) != "unknown"))
        np.testing.assert_array_equal(
            model.predict(X) != "unknown", naive_distances(model, X).min(axis=1) < tau
        )
    assert accepted == sorted(accepted)
    assert accepted[0] < 20
    assert accepted[-1] == 150


def test_recalibrate_moves_tau_alone(iris):
    X, y = iris
    model = NearestNonOutlier(EuclideanMetric(), tau=0.2).fit(X[::2], y[::2])
    means = model.class_means_.index.means.copy()
    assert model.recalibrate(X[1::2], y[1::2]) is model
    assert model.tau_ == model.calibration_.tau > 0.2
    np.testing.assert_array_equal(model.class_means_.index.means, means)
    assert np.mean(model.predict(X[1::2]) == y[1::2]) > 0.6
    first = model.tau_
    model.recalibrate(X[1::2], y[1::2], CrossClassValidation(FalseAcceptRate(0.0)))
    assert model.tau_ < first
    assert model.tau == 0.2


def test_recalibrate_takes_known_unknowns_into_account(iris):
    X, y = iris
    model = NearestNonOutlier(EuclideanMetric()).fit(X[::2], y[::2])
    calibration = CrossClassValidation(FalseAcceptRate(0.0))
    plain = model.recalibrate(X[1::2], y[1::2], calibration).tau_
    center = X[1::2][y[1::2] == y[1]].mean(axis=0)
    near = center + np.random.default_rng(0).normal(scale=0.1, size=(20, X.shape[1]))
    model.recalibrate(np.vstack([X[1::2], near]), np.r_[y[1::2], [model.unknown_label_] * 20], calibration)
    assert model.tau_ < plain


def test_recalibrate_says_what_is_wrong(model, iris):
    X, y = iris
    for samples, labels, message in [
        (X, np.where(y == "setosa", "rose", y), "not known classes"),
        (X, y[:-3], "inconsistent numbers of samples"),
        (X[:, :3], y, "3 features"),
        (X[:50], y[:50], "at least 2 classes"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.recalibrate(samples, labels)
        assert model.tau_ == 1.5
        assert model.calibration_ is None


def test_samples_that_coincide_with_their_means_still_give_a_positive_tau():
    X, y = np.repeat(10 * np.eye(4), 5, axis=0), np.repeat(list("abcd"), 5)
    for kind in (NearestNonOutlier, SoftmaxThreshold):
        model = kind(EuclideanMetric()).fit(X, y)
        assert model.tau_ > 0
        assert model.predict(X).tolist() == y.tolist()


# --- Correcting ---


def test_forget(model, iris):
    X, y = iris
    expected = NearestNonOutlier(EuclideanMetric(), tau=1.5).fit(X, y).without_classes()
    expected.partial_fit(X[y != "setosa"], y[y != "setosa"])
    model.forget_class("setosa")
    assert model.classes_.tolist() == ["versicolor", "virginica"]
    np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X), atol=1e-9)
    assert np.all(model.predict(X[:50]) == "unknown")
    with pytest.raises(KeyError, match="no class 'setosa' among the 2 classes"):
        model.forget_class("setosa")
    model.forget_class("virginica")
    with pytest.raises(ValueError, match="only class and cannot be forgotten"):
        model.forget_class("versicolor")
    assert model.classes_.tolist() == ["versicolor"]
    assert np.mean(model.predict(X[50:100]) == "versicolor") > 0.8


def test_forget_and_learn_again(model, iris):
    X, y = iris
    before = model.decision_function(X)
    for label in ("setosa", "virginica"):
        model.forget_class(label)
        model.partial_fit(X[y == label], y[y == label])
    np.testing.assert_allclose(model.decision_function(X), before, atol=1e-9)


def test_rename(model, iris):
    X, _ = iris
    before = model.predict(X)
    decision = model.decision_function(X)
    model.rename_class("setosa", "zinnia")
    assert model.classes_.tolist() == ["versicolor", "virginica", "zinnia"]
    np.testing.assert_array_equal(model.predict(X), np.where(before == "setosa", "zinnia", before))
    np.testing.assert_allclose(model.decision_function(X), decision[:, [1, 2, 0]], atol=1e-9)


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        ("rose", "tulip", KeyError, "no class 'rose'"),
        ("setosa", "virginica", ValueError, "Merge the two classes instead"),
        ("setosa", "unknown", ValueError, "means unknown"),
        ("setosa", 3, TypeError, "string"),
    ],
)
def test_rename_says_what_is_wrong(model, iris, old, new, error, message):
    before = model.predict(iris[0])
    with pytest.raises(error, match=message):
        model.rename_class(old, new)
    np.testing.assert_array_equal(model.predict(iris[0]), before)


def test_rename_to_the_same_name_changes_nothing(model, iris):
    before = model.predict(iris[0])
    model.rename_class("setosa", "setosa")
    np.testing.assert_array_equal(model.predict(iris[0]), before)


@pytest.mark.parametrize("into", ["iris", "versicolor"])
def test_merge(iris, into):
    X, y = iris
    model = NearestNonOutlier(EuclideanMetric(), tau=1.5).fit(X, y)
    model.partial_fit(X[50:60], y[50:60])  # so that the two classes differ in weight
    model.merge_classes(["versicolor", "virginica"], into)
    assert sorted(model.classes_.tolist()) == sorted(["setosa", into])
    mean = np.vstack([X[50:], X[50:60]]).mean(axis=0)
    np.testing.assert_allclose(model.statistics_.mean(into), mean)
    assert model.statistics_.count(into) == 110
    np.testing.assert_allclose(
        model.decision_function(X), 1 - naive_distances(model, X) / 1.5, rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize(
    ("labels", "into", "error", "message"),
    [
        (["setosa", "rose"], "iris", KeyError, "no class 'rose'"),
        ([], "iris", ValueError, "at least one class"),
        (["setosa", "virginica"], "unknown", ValueError, "means unknown"),
        (["setosa", "virginica"], 3, TypeError, "string"),
    ],
)
def test_merge_says_what_is_wrong(model, iris, labels, into, error, message):
    before = model.decision_function(iris[0])
    with pytest.raises(error, match=message):
        model.merge_classes(labels, into)
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    np.testing.assert_array_equal(model.decision_function(iris[0]), before)


# --- Nearest classes ---


def test_nearest_classes(digits):
    X, y = digits
    model = NearestNonOutlier(NCMMetric(max_iter=3), tau=5.0).fit(X[:500], y[:500])
    new = X[500:560]
    labels, distances = model.nearest_classes(new, n=4)
    naive = naive_distances(model, new)
    np.testing.assert_array_equal(labels, model.classes_[np.argsort(naive, axis=1)[:, :4]])
    np.testing.assert_allclose(distances, np.sort(naive, axis=1)[:, :4], rtol=1e-6)
    assert model.nearest_classes(new, n=99)[0].shape == (60, 10)
    one, nearest = model.nearest_classes(new, n=1)
    np.testing.assert_array_equal(one, labels[:, :1])
    np.testing.assert_allclose(nearest, distances[:, :1], rtol=1e-9)


# --- Sums of models ---


def test_models_learned_apart_add_up(digits):
    X, y = digits
    start = y < 4
    first = NearestNonOutlier(NCMMetric(max_iter=3)).fit(X[start], y[start])
    whole = deepcopy(first).partial_fit(X[~start], y[~start])
    later = np.random.default_rng(1).permutation(np.flatnonzero(~start))
    parts = [first.without_classes().partial_fit(X[rows], y[rows]) for rows in np.array_split(later, 3)]
    total = parts[2] + (first + parts[0]) + parts[1]
    assert total.classes_.tolist() == whole.classes_.tolist()
    assert total.tau_ == whole.tau_
    np.testing.assert_array_equal(total.predict(X), whole.predict(X))
    np.testing.assert_allclose(total.decision_function(X), whole.decision_function(X), atol=1e-7)
    assert first.classes_.tolist() == [0, 1, 2, 3]
    assert sum(first.statistics_.counts) == start.sum()


def test_a_copy_without_classes_knows_none(model, iris):
    X, y = iris
    empty = model.without_classes()
    assert len(empty.classes_) == 0
    with pytest.raises(ValueError, match="knows no classes yet"):
        empty.predict(X)
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    for total in (model + empty, empty + model):
        np.testing.assert_array_equal(total.predict(X), model.predict(X))
    assert empty.tau_ == 1.5
    empty.partial_fit(X, y)
    np.testing.assert_array_equal(empty.predict(X), model.predict(X))


def test_only_models_of_one_metric_add_up(model, iris):
    X, y = iris
    other = NearestNonOutlier(EuclideanMetric(), tau=1.5).fit(X + X**2, y)
    for stranger in (other, NearestClassMean(EuclideanMetric()).fit(X, y), 3):
        with pytest.raises(ValueError, match=r"can be added. Create the parts with without_classes\(\)"):
            model + stranger


def test_metrics_inside_a_pipeline_are_compared_too(iris):
    X, y = iris
    metric = make_pipeline(StandardScaler(), PCA(2, svd_solver="full"))
    one = NearestNonOutlier(metric, tau=1.0).fit(X, y)
    other = NearestNonOutlier(metric, tau=1.0).fit(X**2, y)
    assert (one + one.without_classes()).classes_.tolist() == one.classes_.tolist()
    with pytest.raises(ValueError, match="with the same metric"):
        one + other


def test_no_sum_makes_unknown_a_class(model, iris):
    part = model.without_classes()
    part.unknown_label_ = "none of these"
    part.partial_fit(iris[0][:5], ["unknown"] * 5)
    with pytest.raises(ValueError, match="means unknown"):
        model + part


# --- The unknown label ---


def test_the_label_for_unknown(iris):
    X, y = iris
    far = np.full((1, 4), 1e6)
    codes = np.unique(y, return_inverse=True)[1] + 1
    metric = EuclideanMetric()
    assert NearestNonOutlier(metric, 1.0).fit(X, y).predict(far).tolist() == ["unknown"]
    assert NearestNonOutlier(metric, 1.0).fit(X, codes).predict(far).tolist() == [-1]
    papers = NearestNonOutlier(metric, 1.0, unknown_label=0).fit(X, codes)
    assert papers.predict(far).tolist() == [0]
    assert set(papers.predict(X)) <= {0, 1, 2, 3}
    assert papers.unknown_label_ == papers.unknown_label == 0
    named = NearestNonOutlier(metric, 1.0, unknown_label="something else entirely").fit(X, y)
    assert named.predict(far).tolist() == ["something else entirely"]
    with pytest.raises(ValueError, match="class label 0 is the label that means unknown"):
        NearestNonOutlier(metric, 1.0, unknown_label=0).fit(X, codes - 1)


@pytest.mark.parametrize(
    ("labels", "unknown"),
    [
        (np.array([True, False]), -1),
        (np.array([7, 300], dtype=np.uint16), -1),
        (np.array([0.0, 5.0]), -1.0),
        (np.array(["a", "bb"], dtype=object), "unknown"),
        (np.array([b"a", b"bb"]), b"unknown"),
        (["a", "bb"], "unknown"),
    ],
)
def test_labels_of_every_kind(labels, unknown):
    X = [[0.0], [10.0]]
    model = NearestNonOutlier(EuclideanMetric(standardize=False), tau=2.0).fit(X, labels)
    answers = model.predict([[0.5], [9.0], [5.0]])
    assert answers.tolist() == [*np.asarray(labels).tolist(), unknown]
    assert model.predict([[0.5]]).dtype == answers.dtype


def test_a_longer_name_learned_later_is_not_cut_off(model):
    model.partial_fit([[90.0, 0.0, 0.0, 0.0]], ["a name longer than all the others"])
    assert model.predict([[90.0, 0.0, 0.0, 0.0]]).tolist() == ["a name longer than all the others"]


# --- Pieces and memory ---


@pytest.mark.parametrize("kind", [NearestNonOutlier, NearestClassMean, SoftmaxThreshold])
@pytest.mark.parametrize("rows", [1, 7, 100])
def test_answers_do_not_depend_on_the_chunks(digits, monkeypatch, kind, rows):
    X, y = digits
    model = kind(NCMMetric(max_iter=3)).fit(X[:600], y[:600])
    answers, decision = model.predict(X[600:900]), model.decision_function(X[600:900])
    nearest = model.nearest_classes(X[600:900], 3)
    monkeypatch.setattr(class_means, "_CHUNK_ROWS", rows)
    np.testing.assert_array_equal(model.predict(X[600:900]), answers)
    np.testing.assert_allclose(model.decision_function(X[600:900]), decision, rtol=1e-8, atol=1e-8)
    np.testing.assert_array_equal(model.nearest_classes(X[600:900], 3)[0], nearest[0])
    np.testing.assert_array_equal(np.concatenate([model.predict(x[None]) for x in X[600:650]]), answers[:50])


def test_memory_of_predict_does_not_grow_with_samples_times_classes():
    random = np.random.default_rng(0)
    n_classes, n_samples = 1500, 40_000
    means = random.normal(size=(n_classes, 4))
    model = NearestNonOutlier(EuclideanMetric(), tau=0.5).fit(means, np.arange(n_classes))
    samples = random.normal(size=(n_samples, 4)).astype(np.float32)
    model.predict(samples[:10])
    tracemalloc.start()
    try:
        model.predict(samples)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert n_samples * n_classes * 4 == 240_000_000
    assert peak < 60_000_000


# --- As an estimator ---


def test_parameters_are_stored_as_given_and_not_changed(iris):
    metric, calibration = EuclideanMetric(), CrossClassValidation()
    model = NearestNonOutlier(metric, calibration, unknown_label="?").fit(*iris)
    assert model.metric is metric
    assert model.tau is calibration
    assert not hasattr(metric, "W_")
    again = clone(model).fit(*iris)
    np.testing.assert_array_equal(again.decision_function(iris[0]), model.decision_function(iris[0]))


def test_fitting_again_forgets_everything(model, iris):
    X, y = iris
    fresh = NearestNonOutlier(EuclideanMetric(), tau=1.5).fit(X[:, :2], y == "setosa")
    model.partial_fit(X[:3], ["a", "b", "c"])
    model.fit(X[:, :2], y == "setosa")
    assert model.classes_.tolist() == [False, True]
    assert model.unknown_label_ == -1
    np.testing.assert_array_equal(model.decision_function(X[:, :2]), fresh.decision_function(X[:, :2]))


def test_unfitted_says_so(iris):
    X, y = iris
    model = NearestNonOutlier()
    for call in (
        lambda: model.predict(X),
        lambda: model.decision_function(X),
        lambda: model.log_density(X),
        lambda: model.nearest_classes(X),
        lambda: model.recalibrate(X, y),
        lambda: model.forget_class("a"),
        lambda: model.rename_class("a", "b"),
        lambda: model.merge_classes(["a"], "b"),
        lambda: model.without_classes(),
        lambda: model.classes_,
    ):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            call()
    assert not hasattr(model, "classes_")
