"""Whatever is given to a recognizer works, or is refused with a reason and leaves the model as it was."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

from openworld import (
    CrossClassValidation,
    EuclideanMetric,
    NCMMetric,
    NearestClassMean,
    NearestNonOutlier,
    OpenWorldRecognizer,
    SoftmaxThreshold,
)

RECOGNIZERS = [
    NearestNonOutlier(EuclideanMetric(), tau=1.5),
    NearestNonOutlier(NCMMetric(max_iter=3)),
    NearestNonOutlier(StandardScaler(), tau=1.5),
    NearestClassMean(EuclideanMetric()),
    NearestClassMean(NCMMetric(max_iter=3)),
    SoftmaxThreshold(EuclideanMetric(), tau=0.5),
    SoftmaxThreshold(NCMMetric(max_iter=3)),
    OpenWorldRecognizer(n_lifted=0),
    OpenWorldRecognizer(n_lifted=8),
]


def metric_of(recognizer):
    """The metric given; OpenWorldRecognizer chooses its own."""
    return getattr(recognizer, "metric", None)


NAMES = [f"{type(r).__name__}-{type(metric_of(r)).__name__}" for r in RECOGNIZERS]
every_recognizer = pytest.mark.parametrize("recognizer", RECOGNIZERS, ids=NAMES)

X, CODES = load_iris(return_X_y=True)
Y = np.array(["setosa", "versicolor", "virginica"])[CODES]
COLUMNS = ["a", "b", "c", "d"]


def state(model):
    """All that a failed call must leave alone, and copies of the arrays."""
    samples = X
    if hasattr(model, "feature_names_in_"):
        samples = pd.DataFrame(X, columns=model.feature_names_in_)
    return {
        "classes": model.classes_.tolist(),
        "tau": getattr(model, "tau_", None),
        "calibration": getattr(model, "calibration_", None),
        "unknown_label": model.unknown_label_,
        "n_features": model.n_features_in_,
        "feature_names": getattr(model, "feature_names_in_", np.empty(0)).tolist(),
        "counts": model.statistics_.counts.tolist(),
        "sums": model.statistics_.sums.tolist(),
        "decision": model.decision_function(samples).tolist(),
        "answers": model.predict(samples).tolist(),
        "attributes": sorted(vars(model)),
    }


def with_value(value, dtype=np.float64):
    samples = X.astype(dtype)
    samples[7, 2] = value
    return samples


# What is wrong, samples, labels, the kind of error, and what its text says.
BAD_BATCHES = [
    ("nan", with_value(np.nan), Y, ValueError, "contains NaN"),
    ("nan float32", with_value(np.nan, np.float32), Y, ValueError, "contains NaN"),
    ("infinity", with_value(np.inf), Y, ValueError, "contains infinity"),
    ("minus infinity", with_value(-np.inf, np.float16), Y, ValueError, "contains infinity"),
    ("empty", np.empty((0, 4)), [], ValueError, "0 sample"),
    ("no features", np.empty((150, 0)), Y, ValueError, "0 feature"),
    ("one-dimensional", X[:, 0], Y, ValueError, "(?s)Expected 2D array.*Reshape your data"),
    ("three-dimensional", X[np.newaxis], Y[:1], ValueError, "dim 3"),
    ("text", np.full((150, 4), "x"), Y, ValueError, "could not convert string|dtype"),
    ("complex", X * 1j, Y, ValueError, "Complex data not supported"),
    ("sparse", sparse.csr_array(X), Y, TypeError, "Sparse data.*SparseRandomProjection"),
    ("no labels", X, None, ValueError, "requires y to be passed"),
    ("too few labels", X, Y[:-1], ValueError, "inconsistent numbers of samples"),
    ("labels of two dimensions", X, np.column_stack([Y, Y]), ValueError, "should be a 1d array"),
    ("mixed labels", X[:3], ["setosa", 1, "virginica"], TypeError, "mixed kinds.*same kind"),
    ("mixed labels in an object array", X[:2], np.array(["setosa", 1], object), TypeError, "(?i)mix|label"),
    ("missing labels", X[:2], ["setosa", None], TypeError, "mixed kinds"),
    ("missing labels of a frame", X[:2], pd.Series(["setosa", np.nan]), (TypeError, ValueError), "NaN|mixed"),
    ("continuous labels", X[:3], [0.5, 1.5, 2.25], ValueError, "Unknown label type: continuous"),
    ("label is unknown", X[:3], ["setosa", "unknown", "rose"], ValueError, "choose another unknown_label"),
]  # fmt: skip
bad_batch = pytest.mark.parametrize(
    ("samples", "labels", "error", "message"), [b[1:] for b in BAD_BATCHES], ids=[b[0] for b in BAD_BATCHES]
)


@every_recognizer
@bad_batch
def test_a_bad_batch_is_refused_and_changes_nothing(recognizer, samples, labels, error, message):
    unfitted = clone(recognizer)
    for learn in (unfitted.fit, unfitted.partial_fit):
        with pytest.raises(error, match=message):
            learn(samples, labels)
        assert not hasattr(unfitted, "classes_")
        assert vars(unfitted).keys() == vars(clone(recognizer)).keys()
    model = clone(recognizer).fit(X, Y)
    before = state(model)
    for learn in (model.fit, model.partial_fit):
        with pytest.raises(error, match=message):
            learn(samples, labels)
        assert state(model) == before


# Refused only by a model that has learned something else before.
UNFITTING_BATCHES = [
    ("wrong number of features", X[:, :3], Y, ValueError, "3 features.*expecting 4 features"),
    ("more features", np.c_[X, X], Y, ValueError, "8 features.*expecting 4 features"),
    ("labels of another kind", X, CODES, TypeError, "string"),
    ("labels as bytes", X, Y.astype(bytes), TypeError, "bytes"),
]  # fmt: skip


@every_recognizer
@pytest.mark.parametrize(
    ("samples", "labels", "error", "message"),
    [batch[1:] for batch in UNFITTING_BATCHES],
    ids=[batch[0] for batch in UNFITTING_BATCHES],
)
def test_a_batch_that_does_not_fit_changes_nothing(recognizer, samples, labels, error, message):
    model = clone(recognizer).fit(X, Y)
    before = state(model)
    with pytest.raises(error, match=message):
        model.partial_fit(samples, labels)
    assert state(model) == before


FROZEN = [r for r in RECOGNIZERS if not (r.calibrates_itself or hasattr(r.metric, "partial_fit"))]


@pytest.mark.parametrize("recognizer", FROZEN)
@pytest.mark.parametrize(("far", "label"), [(1e200, "setosa"), (-1e30, "new"), (1.7e308, "new")])
def test_class_mean_too_far_away_is_rejected(recognizer, far, label):
    """Its distances would overflow, and with them the search for every other class."""
    model = clone(recognizer).fit(X, Y)
    before = state(model)
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="Check X for wrong values"):
        model.partial_fit(np.full((1, 4), far), [label])
    assert state(model) == before


@every_recognizer
def test_a_class_learned_far_away_does_not_blur_the_others(recognizer):
    model = clone(recognizer).fit(X, Y)
    if hasattr(model.metric_, "partial_fit"):
        return
    samples = [X, X.astype(np.float32)]
    before = [(model.predict(x), model.decision_function(x)) for x in samples]
    model.partial_fit(np.full((1, 4), 1e6), ["far"])
    for x, (answers, decision) in zip(samples, before, strict=True):
        np.testing.assert_array_equal(model.predict(x), answers)
        np.testing.assert_allclose(np.delete(model.decision_function(x), 0, axis=1), decision, atol=1e-3)


def test_samples_that_add_up_to_infinity_change_nothing():
    model = NearestNonOutlier(EuclideanMetric(standardize=False), tau=1.5).fit(X, Y)
    before = state(model)
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="infinity"):
        model.partial_fit(np.full((2, 4), 1.7e308), ["setosa", "setosa"])
    assert state(model) == before


class Fickle(TransformerMixin, BaseEstimator):
    """A metric that fails once its class attribute says so."""

    fails = False

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        if Fickle.fails:
            raise RuntimeError("out of order")
        return np.asarray(X, dtype=np.float64)


class FickleLearner(Fickle):
    def partial_fit(self, X, y=None):
        return self


@pytest.mark.parametrize("metric", [Fickle(), FickleLearner()])
@pytest.mark.parametrize("labels", [["setosa"] * 5, ["new"] * 5, ["new", "setosa", "a", "b", "zoo"]])
def test_a_metric_that_fails_half_way_changes_nothing(monkeypatch, metric, labels):
    model = NearestNonOutlier(metric, tau=1.5).fit(X, Y)
    before = state(model)
    monkeypatch.setattr(Fickle, "fails", True)
    for learn in (model.partial_fit, model.fit):
        with pytest.raises(RuntimeError, match="out of order"):
            learn(X[:5] + 1, labels)
    monkeypatch.setattr(Fickle, "fails", False)
    assert state(model) == before
    model.partial_fit(X[:5] + 1, labels)
    assert set(labels) <= set(model.classes_)


@every_recognizer
@pytest.mark.parametrize(
    ("samples", "error", "message"),
    [
        (with_value(np.nan), ValueError, "contains NaN"),
        (with_value(np.inf, np.float32), ValueError, "contains infinity"),
        (X[:, :3], ValueError, "3 features.*expecting 4 features"),
        (np.empty((0, 4)), ValueError, "0 sample"),
        (X[0], ValueError, "Expected 2D array"),
        (sparse.csr_array(X), TypeError, r"Sparse data.*toarray\(\)"),
        (np.full((2, 4), "x"), ValueError, "could not convert string|dtype"),
    ],
)
def test_bad_samples_to_recognize(recognizer, samples, error, message):
    model = clone(recognizer).fit(X, Y)
    calls = [model.predict, model.decision_function, model.nearest_classes]
    more = ("predict_proba", "log_density", "membership")
    calls += [getattr(model, name) for name in more if hasattr(model, name)]
    for call in calls:
        with pytest.raises(error, match=message):
            call(samples)


# --- Little data ---


@every_recognizer
def test_one_class_is_enough_to_start_where_tau_and_metric_need_no_more(recognizer):
    if recognizer.calibrates_itself:
        with pytest.warns(UserWarning, match="Too little to calibrate with"):
            model = clone(recognizer).fit(X[:50], Y[:50])
        assert model.classes_.tolist() == ["setosa"]
        return
    learns_tau = hasattr(recognizer, "tau") and recognizer.tau is None
    learns_metric = isinstance(metric_of(recognizer), NCMMetric | None)
    if learns_tau or learns_metric:
        with pytest.raises(ValueError, match="at least 2 classes"):
            clone(recognizer).fit(X[:50], Y[:50])
        return
    model = clone(recognizer).fit(X[:50], Y[:50])
    assert model.classes_.tolist() == ["setosa"]
    assert np.mean(model.predict(X[:50]) == "setosa") > 0.3
    assert model.decision_function(X).shape == (150, 1)


@every_recognizer
def test_one_sample_to_start_with(recognizer):
    if isinstance(metric_of(recognizer), NCMMetric | None):
        with pytest.raises(ValueError, match=r"at least 2 (classes|samples)"):
            clone(recognizer).fit(X[:1], Y[:1])
        return
    model = clone(recognizer).fit(X[:1], Y[:1])
    assert model.predict(X[:1]).tolist() == ["setosa"]


@every_recognizer
def test_one_sample_of_a_new_class_and_one_sample_to_recognize(recognizer):
    model = clone(recognizer).fit(X, Y)
    model.partial_fit([[20.0, 0.0, 20.0, 0.0]], ["new"])
    assert model.predict([[20.0, 0.0, 20.0, 0.0]]).tolist() == ["new"]
    assert model.statistics_.count("new") == 1


@every_recognizer
def test_a_starting_class_of_one_sample(recognizer):
    samples, labels = np.vstack([X, [[20.0, 0.0, 20.0, 0.0]]]), np.append(Y, "single")
    model = clone(recognizer).fit(samples, labels)
    assert "single" in model.classes_
    assert model.predict(samples[-1:]).tolist() == ["single"]


def test_every_class_of_one_sample_leaves_nothing_to_calibrate_with():
    with pytest.warns(UserWarning, match="The threshold is a guess until more is learned"):
        model = OpenWorldRecognizer().fit(X[[0, 60, 120]], Y[[0, 60, 120]])
    assert model.predict(X[[0, 60, 120]]).tolist() == Y[[0, 60, 120]].tolist()


@pytest.mark.parametrize("kind", [NearestNonOutlier, SoftmaxThreshold])
def test_every_class_of_one_sample_leaves_nothing_to_find_tau_with(kind):
    with pytest.raises(ValueError, match=r"2 samples each.*set tau to a number"):
        kind(EuclideanMetric()).fit(X[[0, 60, 120]], Y[[0, 60, 120]])
    model = kind(EuclideanMetric(), tau=0.9).fit(X[[0, 60, 120]], Y[[0, 60, 120]])
    assert model.predict(X[[0, 60, 120]]).tolist() == ["setosa", "versicolor", "virginica"]


@pytest.mark.parametrize("kind", [NearestNonOutlier, SoftmaxThreshold])
def test_fewer_classes_than_folds(kind):
    model = kind(EuclideanMetric(), tau=CrossClassValidation(n_folds=10)).fit(X[:100], Y[:100])
    assert len(model.calibration_.fold_taus) == 10
    assert model.tau_ > 0


@every_recognizer
def test_constant_features(recognizer):
    samples = np.column_stack([X, np.full(150, 0.1), np.zeros(150)])
    model = clone(recognizer).fit(samples, Y)
    plain = clone(recognizer).fit(X, Y)
    assert np.all(np.isfinite(model.decision_function(samples)))
    # In OpenWorldRecognizer the features decide on the representation and on what is held out together.
    same = 0.7 if isinstance(model, OpenWorldRecognizer) else 0.95
    assert np.mean(model.predict(samples) == plain.predict(X)) > same


@every_recognizer
@pytest.mark.filterwarnings("ignore:Too little to calibrate with")
def test_all_features_constant(recognizer):
    model = clone(recognizer).fit(np.ones((9, 2)), list("aaabbbccc"))
    assert np.all(np.isfinite(model.decision_function(np.ones((2, 2)))))
    assert set(model.predict(np.ones((2, 2)))) <= {"a", "b", "c", "unknown"}


@every_recognizer
def test_duplicate_samples(recognizer):
    samples, labels = np.repeat(X[::10], 6, axis=0), np.repeat(Y[::10], 6)
    model = clone(recognizer).fit(samples, labels)
    assert np.mean(model.predict(samples) == labels) > 0.4
    once = clone(recognizer).set_params(**({"tau": 1.5} if hasattr(recognizer, "tau") else {}))
    if not isinstance(metric_of(recognizer), NCMMetric | None):
        np.testing.assert_allclose(
            clone(once).fit(samples, labels).decision_function(X),
            clone(once).fit(X[::10], Y[::10]).decision_function(X),
            atol=1e-6,
        )


@pytest.mark.parametrize("kind", [NearestNonOutlier, NearestClassMean, SoftmaxThreshold])
def test_more_components_than_features(kind):
    with pytest.raises(ValueError, match="n_components=5 must be between 1 and the number of features, 4"):
        kind(NCMMetric(5)).fit(X, Y)


@pytest.mark.parametrize(
    ("unknown_label", "labels", "error", "message"),
    [
        ("setosa", Y, ValueError, "Rename that class, or choose another"),
        (0, CODES, ValueError, "Rename that class, or choose another"),
        (1.0, CODES, ValueError, "Rename that class, or choose another"),
        (0, Y, TypeError, "use a string with string labels"),
        ("unknown", CODES, TypeError, "a number with numbers"),
        (["unknown"], Y, TypeError, "must be a single label"),
        (object(), Y, TypeError, "label"),
    ],
)
@pytest.mark.parametrize("kind", [NearestNonOutlier, NearestClassMean, SoftmaxThreshold])
def test_bad_unknown_label(kind, unknown_label, labels, error, message):
    with pytest.raises(error, match=message):
        kind(EuclideanMetric(), unknown_label=unknown_label).fit(X, labels)


# --- The same samples in another guise ---


def memory_mapped(folder):
    path = folder / "samples"
    mapped = np.memmap(path, dtype=np.float64, mode="w+", shape=X.shape)
    mapped[:] = X
    mapped.flush()
    return np.memmap(path, dtype=np.float64, mode="r", shape=X.shape)


GUISES = {
    "float32": lambda folder: X.astype(np.float32),
    "float16": lambda folder: X.astype(np.float16),
    "longdouble": lambda folder: X.astype(np.longdouble),
    "object": lambda folder: X.astype(object),
    "list": lambda folder: X.tolist(),
    "fortran": lambda folder: np.asfortranarray(X),
    "strided": lambda folder: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "backwards": lambda folder: X[::-1].copy()[::-1],
    "other byte order": lambda folder: X.astype(">f8"),
    "read-only memory map": memory_mapped,
    "frame": lambda folder: pd.DataFrame(X, columns=COLUMNS),
}


@every_recognizer
@pytest.mark.parametrize("guise", GUISES)
def test_the_same_samples_in_any_guise(recognizer, guise, tmp_path):
    samples = GUISES[guise](tmp_path)
    plain = clone(recognizer).fit(X[:100], Y[:100]).partial_fit(X[100:], Y[100:])
    model = clone(recognizer).fit(samples[:100], Y[:100]).partial_fit(samples[100:], Y[100:])
    assert model.classes_.tolist() == plain.classes_.tolist()
    if guise == "float16":  # rounds the samples themselves
        assert np.mean(model.predict(samples) == plain.predict(X)) > 0.9
        return
    exact = guise != "float32"
    np.testing.assert_allclose(
        model.decision_function(samples), plain.decision_function(X), atol=1e-7 if exact else 5e-2
    )
    same = model.predict(samples) == plain.predict(X)
    assert np.all(same) if exact else np.mean(same) > 0.97


@every_recognizer
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, bool])
def test_whole_numbers(recognizer, dtype):
    random = np.random.default_rng(0)
    samples = (random.integers(0, 2, size=(60, 6)) + 200 * (np.arange(60) % 2)[:, None]).astype(dtype)
    labels = np.arange(60) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = clone(recognizer).fit(samples, labels)
        plain = clone(recognizer).fit(samples.astype(np.float64), labels)
    same = model.predict(samples) == plain.predict(samples.astype(np.float64))
    assert np.mean(same) > (0.6 if dtype is bool else 0.95)
    # A difference of unsigned numbers must not wrap around.
    np.testing.assert_allclose(model.statistics_.means, plain.statistics_.means)


@every_recognizer
def test_columns_of_a_frame_are_checked_by_name(recognizer):
    frame = pd.DataFrame(X, columns=COLUMNS)
    model = clone(recognizer).fit(frame, pd.Series(Y))
    assert model.feature_names_in_.tolist() == COLUMNS
    before = state(model)
    swapped, renamed = frame[["b", "a", "c", "d"]], frame.rename(columns={"a": "z"})
    for wrong, message in [(swapped, "must be in the same order"), (renamed, "unseen at fit time")]:
        for call in (model.predict, model.decision_function):
            with pytest.raises(ValueError, match=message):
                call(wrong)
        with pytest.raises(ValueError, match=message):
            model.partial_fit(wrong, Y)
        assert state(model) == before
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)
    fewer = clone(recognizer).fit(frame[["a", "b"]], Y)
    with pytest.raises(ValueError, match="unseen at fit time"):
        fewer.predict(frame)


def test_a_failing_fit_keeps_the_names_of_the_columns():
    frame = pd.DataFrame(X, columns=COLUMNS)
    model = NearestNonOutlier(EuclideanMetric(), tau=1.5).fit(frame, Y)
    before = state(model)
    with pytest.raises(ValueError, match="'tau' parameter"):
        model.set_params(tau=-1).fit(frame.rename(columns=str.upper)[["A", "B"]], CODES)
    model.set_params(tau=1.5)
    assert state(model) == before


@every_recognizer
def test_the_samples_given_are_not_changed_or_kept(recognizer):
    samples, labels = X.copy(), Y.copy()
    model = clone(recognizer).fit(samples, labels).partial_fit(samples, labels)
    np.testing.assert_array_equal(samples, X)
    before = state(model)
    samples[:] = 0
    labels[:] = "zero"
    assert state(model) == before


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series(Y),
        pd.Series(Y, dtype="category"),
        pd.Series(Y, dtype=object),
        Y.tolist(),
        tuple(Y),
        Y.astype(object),
        np.array(Y, order="F"),
    ],
    ids=["series", "category", "object series", "list", "tuple", "object", "array"],
)
def test_labels_in_any_guise(labels):
    model = NearestNonOutlier(EuclideanMetric(), tau=1.5).fit(X, labels)
    plain = NearestNonOutlier(EuclideanMetric(), tau=1.5).fit(X, Y)
    assert model.classes_.tolist() == plain.classes_.tolist()
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, float, bool])
def test_number_labels_of_any_type(dtype):
    labels = (CODES % 2).astype(dtype)
    model = NearestNonOutlier(EuclideanMetric(), tau=1.5).fit(X, labels)
    answers = model.predict(np.vstack([X, np.full((1, 4), 1e6)]))
    assert answers[-1] == -1
    assert set(answers.tolist()) == {0, 1, -1}
    model.partial_fit(X[:2], labels[:2].astype(dtype))
    assert len(model.classes_) == 2
