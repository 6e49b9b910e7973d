import hashlib
import json
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.base import BaseEstimator
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA, KernelPCA

import openworld
from openworld import (
    F1,
    AdaptiveMetric,
    CrossClassValidation,
    EuclideanMetric,
    FalseAcceptRate,
    KnownRecall,
    MinOpenWorldError,
    ModelFileError,
    NCMMetric,
    NearestClassMean,
    NearestNonOutlier,
    OpenWorldRecognizer,
    SoftmaxThreshold,
    load,
    save,
)
from openworld.model_file import FORMAT_VERSION, dumps, loads, read_description
from openworld.model_file import digest as checksum

X, CODES = load_iris(return_X_y=True)
NEW = X + np.random.default_rng(0).normal(scale=0.5, size=X.shape)
LABELS = {
    "string": np.array(["setosa", "Ælfgifu 猫", "a, \"b\"\n\x00c"])[CODES],
    "integer": np.array([7, -300, 2**53 + 1])[CODES],
    "boolean": CODES > 0,
    "float": np.array([1.0, -2.0, 1e17])[CODES],
    "bytes": np.array([b"setosa", b"\xff\x00\x80z", b"b"])[CODES],
}  # fmt: skip
METRICS = {
    "none given": None,
    "learned": NCMMetric(max_iter=3),
    "low rank": NCMMetric(2, max_iter=3, random_state=5),
    "dot": NCMMetric(form="dot", max_iter=3),
    "sgd": NCMMetric(solver="sgd", max_iter=10, learning_rate=0.01, standardize=False),
    "plain": EuclideanMetric(standardize=False),
}
TAUS = {
    "none": None,
    "whole": 3,
    "number": 1 / 3,
    "numpy": np.float32(1.1),
    "f1": CrossClassValidation(F1(0.8), n_folds=2, known_fraction=0.5),
    "false accepts": CrossClassValidation(FalseAcceptRate(0.1), random_state=3),
    "recall": CrossClassValidation(KnownRecall(0.9), validation_fraction=0.5),
    "balanced": CrossClassValidation(MinOpenWorldError()),
}
REPRESENTATIONS = [(standardize, n_lifted) for standardize in (False, True) for n_lifted in (0, 7)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.ow"


def open_world(standardize=False, n_lifted=0, samples=X, labels=CODES, **parameters):
    """An OpenWorldRecognizer with this representation, whatever its calibration would choose."""
    metric = AdaptiveMetric(standardize=standardize, n_lifted=n_lifted)
    return OpenWorldRecognizer(metric=metric, n_lifted=n_lifted, **parameters).fit(samples, labels)


def small_model(kind):
    samples, labels = X[::5, :2], LABELS["string"][::5]
    if kind == "OpenWorldRecognizer":
        return open_world(True, 4, samples, labels)
    return NearestNonOutlier(EuclideanMetric(), tau=1.5).fit(samples, labels)


def small_file(kind, tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / "model.ow"
    save(small_model(kind), path, exact=True)
    return path


@pytest.fixture(scope="module", params=["NearestNonOutlier", "OpenWorldRecognizer"])
def sound(request, tmp_path_factory):
    """A model file small enough to be mistreated byte by byte."""
    return small_file(request.param, tmp_path_factory)


@pytest.fixture(scope="module")
def sound_class_means(tmp_path_factory):
    return small_file("NearestNonOutlier", tmp_path_factory)


@pytest.fixture(scope="module")
def sound_open_world(tmp_path_factory):
    return small_file("OpenWorldRecognizer", tmp_path_factory)


def assert_same(loaded, model, samples=NEW):
    """To the last bit, in all that can be seen."""
    assert type(loaded) is type(model)
    assert loaded.classes_.tolist() == model.classes_.tolist()
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.unknown_label_ == model.unknown_label_
    assert type(loaded.unknown_label_) is type(model.unknown_label_)
    assert getattr(loaded, "tau_", None) == getattr(model, "tau_", None)
    assert getattr(loaded, "calibration_", None) == getattr(model, "calibration_", None)
    assert loaded.n_features_in_ == model.n_features_in_
    for dtype in (np.float64, np.float32):
        given = samples.astype(dtype)
        assert np.all(loaded.decision_function(given) == model.decision_function(given))
        answers = loaded.predict(given)
        assert answers.dtype == model.predict(given).dtype
        assert answers.tolist() == model.predict(given).tolist()
    if isinstance(model, OpenWorldRecognizer):
        assert np.all(loaded.membership(samples) == model.membership(samples))
        assert np.all(loaded.metric_.transform(samples) == model.metric_.transform(samples))
    else:
        for name in ("mean_", "scale_", "W_"):
            np.testing.assert_array_equal(getattr(loaded.metric_, name), getattr(model.metric_, name))
    parameters, expected = loaded.get_params(), model.get_params()
    assert parameters.keys() == expected.keys()
    for name, value in expected.items():
        if not isinstance(value, BaseEstimator):
            assert parameters[name] == value, name


def round_trip(model, path):
    save(model, path, exact=True)
    return load(path)


# --- Round trips ---


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("kind", [NearestNonOutlier, NearestClassMean, SoftmaxThreshold])
def test_every_recognizer_with_every_kind_of_label(kind, labels, path):
    model = kind(EuclideanMetric()).fit(X, LABELS[labels])
    assert_same(round_trip(model, path), model)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", [NearestNonOutlier, NearestClassMean, SoftmaxThreshold])
def test_every_recognizer_with_every_metric(kind, metric, path):
    model = kind(METRICS[metric]).fit(X, LABELS["string"])
    loaded = round_trip(model, path)
    assert_same(loaded, model)
    if isinstance(model.metric_, NCMMetric):
        np.testing.assert_array_equal(loaded.metric_.biases_, model.metric_.biases_)
        assert loaded.metric_.classes_.tolist() == model.metric_.classes_.tolist()
        for name in ("loss_curve_", "held_out_loss_curve_", "steps_curve_", "seconds_curve_", "n_iter_"):
            assert getattr(loaded.metric_, name) == getattr(model.metric_, name)
    np.testing.assert_array_equal(loaded.metric_.transform(NEW), model.metric_.transform(NEW))


@pytest.mark.parametrize("tau", TAUS)
@pytest.mark.parametrize("kind", [NearestNonOutlier, SoftmaxThreshold])
def test_every_kind_of_tau(kind, tau, path):
    model = kind(EuclideanMetric(), TAUS[tau]).fit(X, LABELS["integer"])
    assert_same(round_trip(model, path), model)


@pytest.mark.parametrize(("labels", "unknown"), [("string", "?"), ("integer", 0), ("bytes", b"\xfe")])
def test_a_given_unknown_label(labels, unknown, path):
    model = NearestNonOutlier(EuclideanMetric(), 0.5, unknown_label=unknown).fit(X, LABELS[labels])
    loaded = round_trip(model, path)
    assert_same(loaded, model)
    assert loaded.unknown_label == unknown
    assert loaded.predict(np.full((1, 4), 1e6)).tolist() == [unknown]


@pytest.mark.parametrize("labels", LABELS)
def test_open_world_with_every_kind_of_label(labels, path):
    model = OpenWorldRecognizer(n_lifted=8).fit(X, LABELS[labels])
    assert_same(round_trip(model, path), model)


@pytest.mark.parametrize(("standardize", "n_lifted"), REPRESENTATIONS)
def test_open_world_with_every_representation(standardize, n_lifted, path):
    model = open_world(standardize, n_lifted)
    loaded = round_trip(model, path)
    assert_same(loaded, model)
    found, expected = loaded.metric_.representation_, model.metric_.representation_
    assert (found.n_lifted, found.seed, found.length) == (n_lifted, 0, expected.length)
    np.testing.assert_array_equal(found.rows, expected.rows)
    assert vars(loaded).keys() == vars(model).keys()
    assert loaded.metric_.whitening_.map.flags.c_contiguous == model.metric_.whitening_.map.flags.c_contiguous


@pytest.mark.parametrize("exact", [True, False])
def test_random_fourier_features_are_stored_with_their_phases(exact, path):
    metric = AdaptiveMetric(standardize=True, directions=False, n_lifted=7)
    model = OpenWorldRecognizer(metric=metric).fit(X, CODES)
    save(model, path, exact=exact)
    loaded = load(path)
    assert_same(loaded, model)
    rows = loaded.metric_.representation_.rows
    assert rows.shape == (X.shape[1] + 1, 7)
    np.testing.assert_array_equal(rows, model.metric_.representation_.rows)


@pytest.mark.parametrize("objective", [F1(0.8), FalseAcceptRate(0.1), KnownRecall(0.9), MinOpenWorldError()])
def test_open_world_with_every_objective(objective, path):
    model = open_world(objective=objective, unknown_label=99, reservoir_size=np.int64(7), random_state=3)
    loaded = round_trip(model, path)
    assert_same(loaded, model)
    assert loaded.objective == objective
    assert loaded.reservoir_.size == 7


def test_the_lift_is_read_and_not_drawn_anew(path, monkeypatch):
    """numpy may draw other numbers from the seed some day."""
    model = open_world(n_lifted=7)
    expected = model.decision_function(NEW)
    save(model, path)
    monkeypatch.setattr(np.random, "default_rng", lambda seed: pytest.fail("drawn again"))
    loaded = load(path)
    np.testing.assert_array_equal(loaded.decision_function(NEW), expected)
    loaded.partial_fit(X[:3], CODES[:3]).predict(X)


def test_nothing_that_predictions_read_is_computed_when_loading(path, monkeypatch):
    """The last bit of a product of matrices depends on the machine."""
    model = open_world(True, 7)
    expected = model.decision_function(NEW)
    save(model, path, exact=True)
    for name in (
        "metric.Whitening.of",
        "memory.calibrate",
        "memory.make_scoring_model",
        "memory.hold_out",
    ):
        monkeypatch.setattr(
            f"openworld.recognition.adaptive.{name}", lambda *given: pytest.fail("computed again")
        )
    loaded = load(path)
    np.testing.assert_array_equal(loaded.decision_function(NEW), expected)


@pytest.mark.parametrize("growth", [0.0, 0.5])
@pytest.mark.parametrize(("standardize", "n_lifted"), REPRESENTATIONS)
def test_a_smaller_file_predicts_the_same_and_learns_nearly_the_same(standardize, n_lifted, growth, path):
    """With a map from before the last change (growth > 0), too."""
    model = open_world(standardize, n_lifted, refresh_growth=growth)
    model.partial_fit(NEW[:20], [7] * 20)
    save(model, path)
    assert ("metric.map" in parts(path)[1]) == (growth > 0)
    assert parts(path)[1]["scatter"].dtype == np.float32
    loaded = load(path)
    assert_same(loaded, model)
    assert checksum(dumps(load(path))) == checksum(dumps(loaded)) != checksum(dumps(model))
    for one in (model, loaded):
        one.partial_fit(NEW[20:60], [8] * 40)
    np.testing.assert_allclose(loaded.decision_function(NEW), model.decision_function(NEW), atol=1e-4)


def test_a_file_of_ten_classes_with_a_lift_is_small(path):
    """As many features as the default text encoder has."""
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(10), 12)
    samples = random.standard_normal((10, 384))[y] + random.standard_normal((120, 384))
    save(open_world(True, 2000, samples.astype(np.float32), y), path)
    assert path.stat().st_size + 1080 * 4 * 384 < 12e6  # with a full reservoir


def many_features(n_features=1100, n_lifted=30):
    """A model whose lift is stretched along axes."""
    random = np.random.default_rng(0)
    y = np.arange(n_features) % 10
    samples = (random.random((n_features, n_features)) < 0.01).astype(np.float32) + np.eye(10, n_features)[y]
    return open_world(False, n_lifted, samples.astype(np.float32), y), samples


def test_the_lift_of_many_features_is_drawn_again_exactly(path):
    model, samples = many_features()
    expected = model.decision_function(samples)
    for exact in (False, True):
        save(model, path, exact=exact)
        assert ("metric.rows" in parts(path)[1]) == exact
        assert "metric.axes" in parts(path)[1]
        loaded = load(path)
        assert loaded.metric_.representation_.is_same(model.metric_.representation_)
        np.testing.assert_array_equal(loaded.decision_function(samples), expected)
    save(loaded, path)
    assert "metric.rows" not in parts(path)[1]


def test_other_rows_of_many_features_are_stored(path):
    """As those in a file of 0.1.0 are, or those of a seed that is not known."""
    model, samples = many_features()
    model.metric_.representation_.rows[0, 0] += 1
    expected = model.decision_function(samples)
    save(model, path)
    assert "metric.rows" in parts(path)[1]
    np.testing.assert_array_equal(load(path).decision_function(samples), expected)


def test_a_lift_of_many_features_is_small_in_a_file(path):
    """As many features as counts of n-grams have."""
    model, _ = many_features(2048, 2000)
    save(model, path)
    assert path.stat().st_size < 12e6


def test_axes_that_make_no_sense(path):
    model, _ = many_features()
    save(model, path)
    document, arrays = parts(path)
    axes = arrays["metric.axes"]
    for wrong in (
        axes[:-1],
        axes[0],
        axes[np.newaxis],
        axes.astype(np.float32),
        np.full_like(axes, 6e4),
        np.full_like(axes, np.nan),
    ):
        forge(path, document, {**arrays, "metric.axes": wrong})
        with pytest.raises(ModelFileError), np.errstate(over="ignore"):
            load(path)
    lifted = arrays["metric.centre"]
    forge(path, document, {**arrays, "metric.centre": np.append(lifted, lifted)})
    with pytest.raises(ModelFileError):
        load(path)


def test_samples_that_are_mostly_zero_take_little_room(path):
    samples, y = np.zeros((60, 400), dtype=np.float32), np.arange(60) % 6
    samples[np.arange(60), y] = 1.0
    samples[np.arange(60), 10 + np.arange(60)] = -0.0
    samples[np.arange(60), 80 + np.arange(60)] = 0.1
    model = open_world(samples=samples, labels=y)
    loaded = round_trip(model, path)
    arrays = parts(path)[1]
    assert arrays["reservoir"].nbytes + arrays["reservoir.present"].nbytes < samples.nbytes / 20
    found, expected = (one.reservoir_.samples(np.arange(6), 99)[0] for one in (loaded, model))
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))


def test_a_reservoir_in_double_precision(path):
    model = open_world(True, samples=X + 1e6)
    assert model.reservoir_.dtype == np.float64
    loaded = round_trip(model, path)
    assert_same(loaded, model, NEW + 1e6)
    for one in (model, loaded):
        one.partial_fit(NEW[:9] + 1e6, [7] * 9)
    assert_same(loaded, model, NEW + 1e6)


def test_a_part_of_an_open_world_model_can_be_sent_out_and_come_back(path):
    model = open_world(True, 7)
    part = round_trip(model.without_classes(), path)
    assert len(part.classes_) == 0
    with pytest.raises(ValueError, match="knows no class"):
        part.predict(X)
    part.partial_fit(NEW[:2], [8, 9])  # enough to add, too little to calibrate
    with pytest.warns(UserWarning, match="Too little to calibrate with"):
        part = round_trip(part, path)
    total = model + part
    model.partial_fit(NEW[:2], [8, 9])
    np.testing.assert_allclose(total.decision_function(NEW), model.decision_function(NEW), atol=1e-6)


@pytest.mark.parametrize("growth", [0.0, 0.5])
def test_an_open_world_model_saved_before_it_is_refreshed(growth, path):
    """Metric and threshold in force are kept, not those that a new refresh would give."""
    model = open_world(True, 7, refresh_growth=growth)
    threshold = model.calibration_.threshold
    model.partial_fit(NEW[:20], [7] * 20)
    loaded = round_trip(model, path)
    assert_same(loaded, model)
    assert (loaded.calibration_.threshold == threshold) == (growth > 0)
    loaded.partial_fit(NEW[:1], [7])
    model.partial_fit(NEW[:1], [7])
    assert_same(loaded, model)
    assert (loaded.calibration_.threshold == threshold) == (growth > 0)
    for one in (model, loaded):
        one.partial_fit(NEW[20:100], [8] * 80)
    assert loaded.calibration_.threshold != threshold
    assert_same(loaded, model)


def test_tau_set_by_hand(path):
    model = NearestNonOutlier(EuclideanMetric()).fit(X, CODES)
    model.tau_ = 0.1 + 0.2
    loaded = round_trip(model, path)
    assert loaded.tau_ == 0.1 + 0.2
    assert loaded.calibration_ == model.calibration_


def test_open_world_after_learning_forgetting_renaming_and_merging(path):
    model = open_world(True, 7, labels=LABELS["string"])
    steps = [
        lambda m: m.partial_fit(NEW[:60], np.repeat(["z", "y", "x"], 20)),
        lambda m: m.partial_fit(NEW[:7], ["z"] * 7),
        lambda m: m.forget_class("setosa"),
        lambda m: m.rename_class("y", "a"),
        lambda m: m.merge_classes(["x", "z"], "xz"),
    ]
    copy = model
    for step in steps:
        step(model)
        if copy is not model:
            step(copy)
            assert_same(copy, model)
        copy = round_trip(model, path)
        assert_same(copy, model)
        assert copy.statistics_.labels == model.statistics_.labels
        for name in ("counts", "sums", "scatter"):
            np.testing.assert_array_equal(getattr(copy.statistics_, name), getattr(model.statistics_, name))


def test_after_learning_forgetting_renaming_and_merging(path):
    y = LABELS["string"]
    model = NearestNonOutlier(NCMMetric(max_iter=3), tau=9.0).fit(X, y)
    model.partial_fit(NEW[:60], np.repeat(["z", "y", "x"], 20))
    model.partial_fit(NEW[:7], ["z"] * 7)
    assert_same(round_trip(model, path), model)
    model.forget_class("setosa")
    assert_same(round_trip(model, path), model)
    model.rename_class("y", "a")
    model.merge_classes(["x", "z"], "xz")
    loaded = round_trip(model, path)
    assert_same(loaded, model)
    assert loaded.statistics_.labels == model.statistics_.labels
    np.testing.assert_array_equal(loaded.statistics_.counts, model.statistics_.counts)
    np.testing.assert_array_equal(loaded.statistics_.sums, model.statistics_.sums)


@pytest.mark.parametrize("kind", [NearestNonOutlier, NearestClassMean, SoftmaxThreshold])
def test_learning_after_loading_is_learning_before_saving(kind, path):
    model = kind(NCMMetric(max_iter=3)).fit(X[:100], CODES[:100])
    loaded = round_trip(model, path)
    for one in (model, loaded):
        one.partial_fit(X[100:], CODES[100:])
        one.partial_fit(NEW[:10], [0] * 10)
        one.forget_class(1)
        one.partial_fit(NEW[50:60], [5] * 10)
    assert_same(loaded, model)
    assert_same(round_trip(loaded, path), model)
    assert (loaded + model.without_classes()).predict(NEW).tolist() == model.predict(NEW).tolist()


@pytest.mark.parametrize(("standardize", "n_lifted"), REPRESENTATIONS)
def test_open_world_learning_after_loading_is_learning_before_saving(standardize, n_lifted, path):
    model = open_world(standardize, n_lifted, X[:100], CODES[:100])
    loaded = round_trip(model, path)
    for one in (model, loaded):
        one.partial_fit(X[100:], CODES[100:])
        one.partial_fit(NEW[:10], [0] * 10)
        one.forget_class(1)
        one.partial_fit(NEW[50:60], [5] * 10)
    assert_same(loaded, model)
    assert_same(round_trip(loaded, path), model)
    assert (loaded + model.without_classes()).predict(NEW).tolist() == model.predict(NEW).tolist()
    assert vars(loaded).keys() == vars(model).keys()


def test_a_model_without_classes_can_be_sent_out_and_come_back(path):
    y = LABELS["string"]
    model = NearestNonOutlier(NCMMetric(max_iter=3), tau=9.0).fit(X, y)
    part = round_trip(model.without_classes(), path)
    assert len(part.classes_) == 0
    part.partial_fit(NEW[:10], ["new"] * 10)
    assert_same(round_trip(part, path), part)
    whole = model.partial_fit(NEW[:10], ["new"] * 10)
    total = load(path) + NearestNonOutlier.without_classes(model).partial_fit(X, y)
    np.testing.assert_allclose(total.decision_function(NEW), whole.decision_function(NEW), atol=1e-9)


@pytest.mark.parametrize(
    "model", [NearestNonOutlier(EuclideanMetric(), 1.5), OpenWorldRecognizer(n_lifted=0)]
)
def test_names_of_columns(model, path):
    frame = pd.DataFrame(X, columns=["länge", "b", "c", "d"])
    model = model.fit(frame, CODES)
    loaded = round_trip(model, path)
    assert loaded.feature_names_in_.tolist() == ["länge", "b", "c", "d"]
    assert loaded.predict(frame).tolist() == model.predict(frame).tolist()
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(frame[["b", "länge", "c", "d"]])


def test_numpy_numbers_as_parameters(path):
    metric = NCMMetric(np.int64(2), max_iter=np.int32(3), validation_fraction=np.float32(0.25))
    tau = CrossClassValidation(F1(np.float32(0.5)), n_folds=np.int64(2), random_state=np.int64(1))
    model = NearestNonOutlier(metric, tau).fit(X, CODES)
    loaded = round_trip(model, path)
    assert loaded.get_params()["metric__n_components"] == 2
    assert loaded.get_params()["tau__n_folds"] == 2
    assert_same(loaded, model)


def test_what_has_no_place_in_a_file_is_left_out(path):
    metric = NCMMetric(max_iter=3, callback=print, random_state=np.random.RandomState(0))
    metric.callback = lambda *arguments: None
    loaded = round_trip(NearestClassMean(metric).fit(X, CODES), path)
    assert loaded.metric.callback is None
    assert loaded.metric.random_state is None


def test_labels_that_are_no_valid_unicode(path):
    model = NearestNonOutlier(EuclideanMetric(), 1.5).fit(X, np.array(["a", "b\udc80", "c"])[CODES])
    assert_same(round_trip(model, path), model)


def test_paths_of_any_kind(tmp_path, monkeypatch):
    model = NearestNonOutlier(EuclideanMetric(), 1.5).fit(X, CODES)
    save(model, str(tmp_path / "as text"))
    assert_same(load(str(tmp_path / "as text")), model)
    monkeypatch.chdir(tmp_path)
    save(model, "bare")
    assert_same(load(Path("bare")), model)
    assert sorted(os.listdir(tmp_path)) == ["as text", "bare"]


def test_the_description_is_readable_without_the_arrays(sound):
    description = read_description(sound)
    assert description["recognizer"] == type(load(sound)).__name__
    assert description.get("tau") in (1.5, None)
    assert description["n_features"] == 2
    assert description["format_version"] == FORMAT_VERSION
    assert description["openworld_version"] == openworld.__version__


# --- All or nothing ---


@pytest.mark.parametrize(
    "step",
    [
        "openworld.model_file.file.save_file",
        "openworld.model_file.file.os.fsync",
        "openworld.model_file.file.os.replace",
    ],
)
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file_and_no_other(step, error, path, monkeypatch):
    save(NearestNonOutlier(EuclideanMetric(), 1.5).fit(X, CODES), path)
    before = path.read_bytes()

    def fail(*arguments, **named):
        raise error

    monkeypatch.setattr(step, fail)
    with pytest.raises(type(error)):
        save(NearestNonOutlier(EuclideanMetric(), 2.5).fit(NEW, CODES), path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_a_write_that_stops_half_way_leaves_the_old_file(path, monkeypatch):
    save(NearestNonOutlier(EuclideanMetric(), 1.5).fit(X, CODES), path)

    def half(arrays, file, metadata=None):
        Path(file).write_bytes(b"half a model")
        raise OSError("disk full")

    monkeypatch.setattr("openworld.model_file.file.save_file", half)
    with pytest.raises(OSError, match="disk full"):
        save(NearestNonOutlier(EuclideanMetric(), 2.5).fit(NEW, CODES), path)
    assert load(path).tau_ == 1.5
    assert os.listdir(path.parent) == [path.name]


def test_saving_replaces_the_old_file(path):
    for tau in (1.5, 2.5):
        save(NearestNonOutlier(EuclideanMetric(), tau).fit(X, CODES), path)
        assert load(path).tau_ == tau
    assert os.listdir(path.parent) == [path.name]


def test_a_new_file_has_the_permissions_of_any_new_file(path):
    save(NearestNonOutlier(EuclideanMetric(), 1.5).fit(X, CODES), path)
    other = path.with_name("other")
    other.touch()
    assert path.stat().st_mode == other.stat().st_mode


@pytest.mark.parametrize(
    "model", [NearestNonOutlier(NCMMetric(max_iter=3)), OpenWorldRecognizer(n_lifted=8)], ids=str
)
def test_the_same_model_gives_the_same_checksum(model, path):
    model = model.fit(X, CODES)
    checksums = []
    for one in (model, round_trip(model, path)):
        save(one, path)
        with safe_open(path, framework="numpy") as file:
            checksums.append(file.metadata()["sha256"])
    assert checksums[0] == checksums[1]


# --- What cannot be saved ---


class Own(CrossClassValidation):
    pass


class OwnObjective:
    def value(self, known, unknown, n_known, n_unknown):
        return known - unknown


class OwnRecognizer(NearestNonOutlier):
    pass


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (NearestNonOutlier(), "not fitted yet"),
        (NearestClassMean(), "not fitted yet"),
        (OwnRecognizer(EuclideanMetric(), 1.5).fit(X, CODES), "Cannot save a OwnRecognizer"),
        (PCA().fit(X), "Cannot save a PCA; these can be saved: NearestNonOutlier"),
        (NearestNonOutlier(KernelPCA(2), 1.5).fit(X, CODES), "with a KernelPCA inside"),
        (NearestNonOutlier(EuclideanMetric(), Own()).fit(X, CODES), "set tau to a number to save"),
        (
            NearestNonOutlier(EuclideanMetric(), CrossClassValidation(OwnObjective())).fit(X, CODES),
            "set tau to a number to save",
        ),
        (OpenWorldRecognizer(), "not fitted yet"),
        (OpenWorldRecognizer(OwnObjective(), n_lifted=0).fit(X, CODES), "set one of openworld's to save"),
        (open_world().set_params(refresh_growth=-1), "Cannot save this model: the parameters"),
        (open_world().set_params(n_lifted="many"), "Cannot save this model: the parameters"),
        (open_world().set_params(reservoir_size=0), "Cannot save this model: the parameters"),
        ("a text", "Cannot save a str"),
        (None, "Cannot save a NoneType"),
    ],
)
def test_what_cannot_be_saved_says_why_and_leaves_no_file(model, message, path):
    with pytest.raises(ModelFileError, match=message):
        save(model, path)
    assert os.listdir(path.parent) == []


def test_a_lambda_as_objective_cannot_be_saved(path):
    objective = OwnObjective()
    objective.value = lambda known, unknown, n_known, n_unknown: known - unknown
    model = NearestNonOutlier(EuclideanMetric(), CrossClassValidation(objective)).fit(X, CODES)
    with pytest.raises(ModelFileError, match="calibration of your own making"):
        save(model, path)
    model.set_params(tau=model.tau_)
    assert round_trip(model, path).tau_ == model.tau_


def test_a_number_that_is_none_cannot_be_saved(path):
    model = NearestNonOutlier(EuclideanMetric(), 1.5).fit(X, CODES)
    model.set_params(tau=np.nan)
    with pytest.raises(ModelFileError, match="no place in a file"):
        save(model, path)
    assert os.listdir(path.parent) == []


def test_places_where_no_file_can_be(tmp_path):
    model = NearestNonOutlier(EuclideanMetric(), 1.5).fit(X, CODES)
    with pytest.raises(IsADirectoryError):
        save(model, tmp_path)
    with pytest.raises(FileNotFoundError):
        save(model, tmp_path / "no such folder" / "model.ow")
    assert os.listdir(tmp_path) == []
    assert not list(tmp_path.parent.glob(f".{tmp_path.name}*"))


# --- What cannot be loaded ---


@pytest.mark.parametrize("read", [load, read_description])
def test_no_file_and_no_file_but_a_folder(read, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read(tmp_path / "nowhere.ow")
    with pytest.raises(ModelFileError, match="is a folder"):
        read(tmp_path)


def test_truncated_anywhere(sound, path):
    content = sound.read_bytes()
    lengths = {*range(0, 40), *range(40, len(content), 37), *range(len(content) - 20, len(content))}
    for length in lengths:
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError, match=r"model\.ow"):
            load(path)


def test_longer_than_it_should_be(sound, path):
    for more in (b"\0", b"more", bytes(4096)):
        path.write_bytes(sound.read_bytes() + more)
        with pytest.raises(ModelFileError):
            load(path)


@pytest.mark.parametrize("flip", [0xFF, 0x01, 0x20])
def test_any_byte_altered(sound, path, flip):
    content = sound.read_bytes()
    n_header = 8 + struct.unpack("<Q", content[:8])[0]
    padding = n_header - len(content[8:n_header].rstrip(b" "))
    positions = {*range(0, 8), *range(8, n_header - padding, 5), *range(n_header, len(content), 11)}
    for position in positions:
        altered = bytearray(content)
        altered[position] ^= flip
        path.write_bytes(altered)
        with pytest.raises(ModelFileError, match=r"model\.ow"):
            load(path)


def test_random_damage_never_gives_another_error(sound, path):
    random = np.random.default_rng(0)
    content = np.frombuffer(sound.read_bytes(), dtype=np.uint8)
    for _ in range(300):
        altered = content.copy()
        where = random.integers(len(altered), size=random.integers(1, 6))
        altered[where] ^= random.integers(1, 256, size=len(where), dtype=np.uint8)
        path.write_bytes(altered.tobytes())
        with pytest.raises(ModelFileError):
            load(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"\0", b"not a model", b"\0" * 100, b"{}", b"\xff" * 100, b"PK\x03\x04" + b"\0" * 60],
)
@pytest.mark.parametrize("read", [load, read_description])
def test_files_of_another_kind(read, content, path):
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="not an openworld model file"):
        read(path)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"openworld": "{}"}, {"sha256": "0"}])
def test_a_foreign_safetensors_file(metadata, path):
    save_file({"weight": np.zeros((2, 2))}, path, metadata=metadata)
    with pytest.raises(ModelFileError, match="a safetensors file, but not an openworld model"):
        load(path)


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


def test_a_pickle_is_not_executed(path, tmp_path):
    marker = tmp_path / "executed"
    bait = pickle.dumps(Trap(marker))
    pickle.loads(bait)  # noqa: S301 -- shows that the bait works
    assert marker.exists()
    marker.unlink()
    arrays = np.empty(1, dtype=object)
    arrays[0] = Trap(marker)
    np.save(tmp_path / "array.npy", arrays, allow_pickle=True)
    path.write_bytes(bait)
    for file in (path, tmp_path / "array.npy"):
        for read in (load, read_description):
            with pytest.raises(ModelFileError):
                read(file)
    assert not marker.exists()


# --- Files made with care, checksum and all ---


def parts(sound):
    """The document and the arrays of a model file, read without openworld."""
    content = sound.read_bytes()
    n_header = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + n_header])
    document = json.loads(header.pop("__metadata__")["openworld"])
    data = content[8 + n_header :]
    arrays = {}
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        dtype = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1"}[
            entry["dtype"]
        ]
        arrays[name] = np.frombuffer(data[start:end], dtype=dtype).reshape(entry["shape"])
    return document, arrays


def digest(text, arrays):
    found = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def forge(path, document, arrays):
    text = document if isinstance(document, str) else json.dumps(document)
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    save_file(arrays, path, metadata={"openworld": text, "sha256": digest(text, arrays)})


def test_an_honest_forgery_loads(sound, path):
    document, arrays = parts(sound)
    forge(path, document, arrays)
    assert_same(load(path), load(sound), NEW[:, :2])


def test_a_newer_format(sound, path):
    document, arrays = parts(sound)
    for version in (FORMAT_VERSION + 1, 999, "2", None):
        forge(path, {**document, "format_version": version}, arrays)
        with pytest.raises(ModelFileError, match=f"format {version}.*Update openworld"):
            load(path)


REMOVED = object()


def changed(document, keys, value):
    """A copy of the document with the value at the keys replaced, or removed."""
    document = json.loads(json.dumps(document))
    inner = document
    for key in keys[:-1]:
        inner = inner[key]
    if value is REMOVED:
        del inner[keys[-1]]
    else:
        inner[keys[-1]] = value
    return document


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (["recognizer"], "PCA"),
        (["recognizer"], ["NearestNonOutlier"]),
        (["recognizer"], "NearestClassMean"),
        (["recognizer"], REMOVED),
        (["parameters"], None),
        (["parameters", "surprise"], 1),
        (["parameters", "unknown_label"], REMOVED),
        (["classes"], None),
        (["classes", "kind"], "integer"),
        (["classes", "kind"], "bytes"),
        (["classes", "values"], []),
        (["classes", "values"], ["a", "b"]),
        (["classes", "values"], ["a", "a", "b"]),
        (["classes", "values"], ["a", "b", "unknown"]),
        (["classes", "values"], ["a", "b", 3]),
        (["classes", "values"], ["a", "b", ["c"]]),
        (["classes", "values"], ["a", "b", None]),
        (["classes", "values"], "abc"),
        (["classes", "values"], ["a", "b", "c\0"]),
        (["classes", "values"], ["a", "b", "\0"]),
        (["classes"], {"kind": "integer", "values": [1, 2, 3]}),
        (["unknown_label"], None),
        (["unknown_label", "values"], []),
        (["unknown_label"], {"kind": "integer", "values": [-1]}),
        (["unknown_label", "values"], ["setosa"]),
        (["n_features"], 3),
        (["n_features"], -1),
        (["n_features"], 10**400),
        (["n_features"], float("inf")),
        (["n_features"], "two"),
        (["n_features"], None),
        (["n_features"], True),
        (["n_features"], 0),
        (["feature_names"], 5),
        (["feature_names"], ["a"]),
        (["metric"], None),
        (["metric", "type"], "os.system"),
        (["metric", "type"], "NCMMetric"),
        (["metric", "type"], REMOVED),
        (["format_version"], REMOVED),
    ],
)
def test_a_document_that_makes_no_sense(sound, path, keys, value):
    document, arrays = parts(sound)
    forge(path, changed(document, keys, value), arrays)
    with pytest.raises(ModelFileError, match=r"model\.ow"):
        load(path)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (["recognizer"], "OpenWorldRecognizer"),
        (["parameters", "tau"], {"objective": {"type": "exec"}}),
        (["parameters", "tau"], {"objective": {"type": "F1", "surprise": 1}}),
        (["parameters", "tau"], {"objective": {"type": "F1", "min_recall": "all"}}),
        (["parameters", "tau"], {}),
        (["parameters", "tau"], "1.5"),
        (["parameters", "tau"], [1.5]),
        (["parameters", "tau"], True),
        (["parameters", "tau"], float("nan")),
        (["metric", "parameters"], {"surprise": 1}),
        (["metric_given"], {"type": "KernelPCA", "parameters": {}}),
        (["metric_given"], []),
        (["tau"], REMOVED),
        (["tau"], 0),
        (["tau"], -1.5),
        (["tau"], float("nan")),
        (["tau"], float("inf")),
        (["tau"], "1.5"),
        (["tau"], True),
        (["calibration"], REMOVED),
        (["calibration"], {"tau": 1.0}),
        (["calibration"], {"tau": None, "fold_taus": []}),
        (["calibration"], 3),
    ],
)
def test_a_document_of_class_means_that_makes_no_sense(sound_class_means, path, keys, value):
    document, arrays = parts(sound_class_means)
    forge(path, changed(document, keys, value), arrays)
    with pytest.raises(ModelFileError, match=r"model\.ow"):
        load(path)


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (["recognizer"], "NearestNonOutlier"),
        (["parameters", "objective"], None),
        (["parameters", "objective"], "F1"),
        (["parameters", "objective", "type"], "exec"),
        (["parameters", "objective", "type"], REMOVED),
        (["parameters", "objective", "surprise"], 1),
        (["parameters", "objective"], {"type": "F1", "min_recall": "most"}),
        (["parameters", "objective"], {"type": "FalseAcceptRate", "rate": True}),
        (["parameters", "objective"], {"type": "KnownRecall", "recall": float("nan")}),
        (["parameters", "objective"], {"type": "KnownRecall", "recall": 10**400}),
        (["parameters", "n_lifted"], -1),
        (["parameters", "n_lifted"], 1.5),
        (["parameters", "n_lifted"], None),
        (["parameters", "n_lifted"], REMOVED),
        (["parameters", "reservoir_size"], 0),
        (["parameters", "reservoir_size"], "ten"),
        (["parameters", "refresh_growth"], -0.1),
        (["parameters", "refresh_growth"], float("inf")),
        (["parameters", "refresh_growth"], "often"),
        (["parameters", "random_state"], -1),
        (["parameters", "random_state"], [0]),
        (["metric", "standardize"], False),
        (["metric", "standardize"], 1),
        (["metric", "standardize"], REMOVED),
        (["metric", "n_lifted"], 0),
        (["metric", "n_lifted"], 5),
        (["metric", "n_lifted"], 10**30),
        (["metric", "n_lifted"], -3),
        (["metric", "n_lifted"], 4.0),
        (["metric", "random_state"], "seed"),
        (["metric", "length"], 0.0),
        (["metric", "length"], -1),
        (["metric", "length"], float("nan")),
        (["metric", "length"], float("inf")),
        (["metric", "length"], None),
        (["metric", "shrinkage"], -0.5),
        (["metric", "shrinkage"], None),
        (["reservoir"], None),
        (["reservoir", "size"], 0),
        (["reservoir", "size"], "12"),
        (["reservoir", "total"], -1),
        (["reservoir", "total"], 1e3),
        (["reservoir", "dtype"], "float64"),
        (["reservoir", "dtype"], "object"),
        (["reservoir", "dtype"], ["float32"]),
        (["reservoir", "samples_of_class"], None),
        (["reservoir", "samples_of_class"], {}),
        (["reservoir", "samples_of_class"], []),
        (["reservoir", "samples_of_class"], [10, 10]),
        (["reservoir", "samples_of_class"], [0, 10, 20]),
        (["reservoir", "samples_of_class"], [-10, 20, 20]),
        (["reservoir", "samples_of_class", 0], 10**30),
        (["reservoir", "samples_of_class", 0], 11),
        (["reservoir", "samples_of_class", 0], 2**62),
        (["reservoir", "samples_of_class", 0], "10"),
        (["state"], REMOVED),
        (["state"], 3),
        (["state"], {}),
        (["state", "n_samples"], REMOVED),
        (["state", "n_samples"], None),
        (["state", "n_samples"], float("nan")),
        (["state", "threshold"], REMOVED),
        (["state", "threshold"], float("inf")),
        (["state", "threshold"], "high"),
        (["state", "weight"], True),
        (["state", "by_distance"], 1),
        (["state", "error"], "none"),
        (["state", "slope"], 0),
        (["state", "slope"], -1.0),
        (["state", "surprise"], 1.0),
    ],
)
def test_a_document_of_an_open_world_that_makes_no_sense(sound_open_world, path, keys, value):
    document, arrays = parts(sound_open_world)
    forge(path, changed(document, keys, value), arrays)
    with pytest.raises(ModelFileError, match=r"model\.ow"):
        load(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "3",
        '"text"',
        "{",
        "[" * 100_000,
        '{"a":' * 100_000,
        "[" * 900 + "]" * 900,
        "9" * 5000,
    ],
    ids=[
        "empty",
        "null",
        "list",
        "number",
        "text",
        "open",
        "deep list",
        "deep dict",
        "nested",
        "long number",
    ],
)
def test_a_text_that_is_no_document(sound, path, text):
    forge(path, text, parts(sound)[1])
    with pytest.raises(ModelFileError):
        load(path)
    with pytest.raises(ModelFileError):
        read_description(path)


def altered_arrays(arrays):
    """Names of what is wrong, with the arrays that are."""
    for name, array in arrays.items():
        if name != "metric.map":  # which follows from the scatter
            yield f"no {name}", {key: value for key, value in arrays.items() if key != name}
        yield f"{name} too short", {**arrays, name: array[:-1]}
        if name != "vectors":  # rows that no class has any more may be left over
            yield f"{name} too long", {**arrays, name: np.concatenate([array, array[:1]])}
        yield f"{name} of more dimensions", {**arrays, name: array[np.newaxis]}
        yield f"{name} a single number", {**arrays, name: np.array(1.0)}
        yield f"{name} empty", {**arrays, name: np.empty(0)}
        other = np.float32 if array.dtype == np.float64 else np.float64
        if name not in ("scatter", "metric.rows"):  # which have two precisions
            yield f"{name} {other.__name__}", {**arrays, name: array.astype(other)}
        if name == "rows":
            for value in (-1, array.max() + 1, array[-1]):
                yield f"{name} with {value}", {**arrays, name: np.r_[value, array[1:]]}
            continue
        yield f"{name} whole numbers", {**arrays, name: array.astype(np.int64)}
        for value in (np.nan, np.inf, *([1e300] if array.dtype == np.float64 else [])):
            wrong = array.copy()
            wrong.flat[0] = value
            yield f"{name} with {value}", {**arrays, name: wrong}
    for value in (0.0, -1.0):
        yield f"count {value}", {**arrays, "counts": np.array([1.0, value, 1.0])}
        yield f"scale {value}", {**arrays, "metric.scale": np.array([1.0, value])}
    if "metric.W" in arrays:
        yield "fewer dimensions", {**arrays, "metric.W": arrays["metric.W"][:, :1]}
        return
    yield "fewer samples than kept", {**arrays, "counts": arrays["counts"] - 1}
    yield "no radius", {**arrays, "radii": 0 * arrays["radii"]}
    yield "negative scatter", {**arrays, "scatter": -arrays["scatter"]}
    yield "negative lengths", {**arrays, "length_sums": -arrays["length_sums"]}
    yield "negative scatter of lengths", {**arrays, "length_scatter": arrays["length_scatter"] - 1e6}
    yield "scatter of one dimension less", {**arrays, "scatter": arrays["scatter"][:-4]}
    yield "map of one dimension less", {**arrays, "metric.map": arrays["metric.map"][:-4]}
    yield "rows without the constant", {**arrays, "metric.rows": arrays["metric.rows"][:-1]}


def test_arrays_that_do_not_fit_together(sound, path):
    document, arrays = parts(sound)
    loaded = []
    for what, wrong in altered_arrays(arrays):
        forge(path, document, wrong)
        try:
            load(path)
        except ModelFileError:
            continue
        loaded.append(what)
    assert loaded == []


def test_an_index_that_makes_no_sense(path):
    save(NearestNonOutlier(EuclideanMetric(), tau=1.0, index="approximate").fit(X, CODES), path)
    document, arrays = parts(path)
    far = arrays["index.centroids"].copy()
    far[0, 0] = 1e38
    for wrong in (
        {"index.centroids": far},
        {"index.centroids": far[:0]},
        {"index.lists": arrays["index.lists"] + len(far)},
        {"index.origin": np.full_like(arrays["index.origin"], 1e300)},
    ):
        forge(path, document, {**arrays, **wrong})
        with pytest.raises(ModelFileError, match="the index of the model"):
            load(path)


def test_a_model_that_cannot_predict_is_refused(path):
    """Every part is sound by itself, but whatever one asks, the answer is not a number."""
    save(NearestNonOutlier(EuclideanMetric(), tau=1.0).fit(X, CODES), path)
    document, arrays = parts(path)
    forge(path, {**document, "tau": 5e-324}, arrays)
    with pytest.raises(ModelFileError, match="predictions"):
        load(path)


def test_values_that_would_overflow_later_are_refused(tmp_path):
    """Each loaded and predicted, until the model learned a class or forgot one."""
    path = tmp_path / "model.ow"
    model = OpenWorldRecognizer(n_lifted=0, learn_unknowns=True).fit(X, CODES)
    model.learn_unknown(X[:2] - 9)
    save(model, path, exact=True)
    document, arrays = parts(path)
    arrays["scatter_rows"] = np.zeros((1, 4))
    largest = {"scatter_rows": 1e150, "scatter": 1e150, "sums": 1e150, "length_sums": 1e150, "counts": 1e38}
    largest |= {"length_scatter": 1e150, "metric.map": 1e30, "metric.centre": 1e30, "vectors": 1e30}
    loaded = []
    for name, value in largest.items():
        forge(path, document, {**arrays, name: np.full_like(arrays[name], value)})
        try:
            load(path)
        except ModelFileError:
            continue
        loaded.append(name)
    assert loaded == []


def test_an_array_of_a_type_that_numpy_lacks(sound, path):
    document, arrays = parts(sound)
    text = json.dumps(document)
    header = {"__metadata__": {"openworld": text, "sha256": digest(text, arrays)}}
    header["counts"] = {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]}
    raw = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + bytes(6))
    with pytest.raises(ModelFileError):
        load(path)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F64", "shape": [2**40], "data_offsets": [0, 2**43]},
        {"dtype": "F64", "shape": [2**62, 2**62], "data_offsets": [0, 0]},
        {"dtype": "F64", "shape": [2**40], "data_offsets": [0, 0]},
        {"dtype": "F64", "shape": [-1], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [1], "data_offsets": [8, 0]},
        {"dtype": "X99", "shape": [1], "data_offsets": [0, 8]},
    ],
)
def test_a_header_that_promises_too_much(sound, path, entry):
    document, arrays = parts(sound)
    text = json.dumps(document)
    header = {"__metadata__": {"openworld": text, "sha256": digest(text, arrays)}, "counts": entry}
    raw = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw)
    with pytest.raises(ModelFileError):
        load(path)


@pytest.mark.parametrize("length", [2**63, 2**40, 200_000_000])
def test_a_header_longer_than_the_file(sound, path, length):
    path.write_bytes(struct.pack("<Q", length) + sound.read_bytes()[8:])
    with pytest.raises(ModelFileError):
        load(path)


def test_a_wrong_checksum(sound, path):
    document, arrays = parts(sound)
    save_file(dict(arrays), path, metadata={"openworld": json.dumps(document), "sha256": "0" * 64})
    with pytest.raises(ModelFileError, match="altered after it was written"):
        load(path)
    swapped = {**arrays, "metric.mean": arrays["metric.scale"], "metric.scale": arrays["metric.mean"]}
    text = json.dumps(document)
    save_file(swapped, path, metadata={"openworld": text, "sha256": digest(text, arrays)})
    with pytest.raises(ModelFileError, match="altered after it was written"):
        load(path)


# --- Bytes ---


def test_bytes_hold_the_model(path):
    model = open_world(True, 7)
    data = dumps(model)
    assert_same(loads(data), model)
    save(model, path, exact=True)
    assert checksum(path.read_bytes()) == checksum(data) == checksum(dumps(loads(data)))
    model.partial_fit(X[:3] + 1, model.classes_[:3])
    assert checksum(dumps(model)) != checksum(data)


def test_bytes_that_hold_no_model():
    with pytest.raises(ModelFileError):
        loads(dumps(open_world())[:-5])
    with pytest.raises(ModelFileError):
        loads(b"")


def test_known_unknowns_survive_the_file(tmp_path):
    random = np.random.default_rng(0)
    samples, labels = (
        random.normal(size=(60, 4)) + np.repeat([0, 4, 8], 20)[:, None],
        np.repeat([0, 1, 2], 20),
    )
    model = OpenWorldRecognizer(learn_unknowns=True).fit(samples, labels)
    model.learn_unknown(random.normal(size=(25, 4)) + 2)
    save(model, tmp_path / "model.ow")
    loaded = load(tmp_path / "model.ow")
    assert loaded.learn_unknowns
    np.testing.assert_array_equal(loaded.memory_.kept_unknowns(), model.memory_.kept_unknowns())
    assert loaded.threshold_ == model.threshold_
    loaded.partial_fit(samples[:3] + 40, [3] * 3)
    assert loaded.threshold_ == model.partial_fit(samples[:3] + 40, [3] * 3).threshold_
