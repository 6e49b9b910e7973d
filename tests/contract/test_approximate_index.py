"""Recognizers with one index and the other: the same answers, whatever is learned and forgotten."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from openworld import EuclideanMetric, NearestClassMean, NearestNonOutlier, OpenWorldRecognizer, load, save
from openworld.index import ApproximateIndex, ExactIndex, choice
from openworld.model_file import ModelFileError, dumps, loads, verify

pytest.importorskip("faiss")

RNG = np.random.default_rng(0)
CENTERS = RNG.normal(size=(12, 8))
MEANS = CENTERS[RNG.integers(12, size=600)] + 0.5 * RNG.normal(size=(600, 8))
SAMPLES = np.vstack([MEANS[:200] + 0.1 * RNG.normal(size=(200, 8)), 3 * RNG.normal(size=(50, 8))])
PLAIN = EuclideanMetric(standardize=False)


def fitted(index, labels=None, kind=NearestNonOutlier):
    parameters = {"tau": 0.6} if kind is NearestNonOutlier else {}
    return kind(PLAIN, index=index, **parameters).fit(MEANS, np.arange(600) if labels is None else labels)


def by_hand(model, tau=0.6):
    """The nearest class mean within tau, from nothing but the statistics."""
    labels = np.array(model.statistics_.labels)
    distances = np.linalg.norm(SAMPLES[:, None] - model.statistics_.means, axis=2)
    return np.where(distances.min(axis=1) < tau, labels[distances.argmin(axis=1)], model.unknown_label_)


@pytest.mark.parametrize("labels", [np.arange(600) * 7, np.arange(600).astype(str)])
@pytest.mark.parametrize("index", ["exact", "approximate"])
def test_predictions_follow_every_change(index, labels):
    model = fitted(index, labels)
    kept = model.class_means_.index
    steps = (
        lambda: model.partial_fit(SAMPLES[:3], labels[[5, 5, 9]]),
        lambda: model.partial_fit(SAMPLES[-2:], np.array([-7, -8]).astype(labels.dtype)),
        lambda: model.forget_class(labels[599]),
        lambda: model.forget_class(labels[3]),
        lambda: model.rename_class(labels[4], labels[3]),
        lambda: model.merge_classes([labels[0], labels[598], labels[1]], labels[2]),
        lambda: model.merge_classes([labels[10], labels[11]], labels[3] * 2),
    )
    for step in steps:
        step()
        np.testing.assert_array_equal(model.predict(SAMPLES), by_hand(model))
        projected = model.metric_.transform(model.statistics_.means)
        np.testing.assert_allclose(model.class_means_.index.means, projected, atol=1e-12)
        assert model.class_means_.index is kept
        assert model.classes_.tolist() == sorted(model.statistics_.labels)
    assert model.predict(SAMPLES).dtype == loads(dumps(model)).predict(SAMPLES).dtype


def test_the_answers_do_not_depend_on_the_order_of_learning():
    """Classes with one mean: the first label is the answer, in whatever row it stands."""
    X, y = np.repeat([[0.0, 0.0], [1.0, 1.0]], 3, axis=0), np.array(list("cabfde"))
    for index in ("exact", "approximate"):
        for order in ([0, 1, 2, 3, 4, 5], [5, 3, 1, 0, 2, 4], [2, 4, 0, 5, 1, 3]):
            model = NearestNonOutlier(PLAIN, tau=0.5, index=index).fit(X[order[:1]], y[order[:1]])
            for i in order[1:]:
                model.partial_fit(X[[i]], y[[i]])
            assert model.predict([[0.1, 0.0], [0.9, 1.0], [9.0, 9.0]]).tolist() == ["a", "d", "unknown"]
            assert model.nearest_classes([[0.0, 0.0]], 3)[0].tolist() == [["a", "b", "c"]]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("lfrm"), st.integers(0, 10**6)), max_size=12))
def test_any_sequence_of_learning_and_correcting(steps):
    labels = [f"c{i}" for i in range(30)]
    models = [
        NearestNonOutlier(PLAIN, tau=0.6, index=index).fit(MEANS[:30], labels)
        for index in ("exact", "approximate")
    ]
    for i, (step, number) in enumerate(steps):
        known = models[0].classes_
        label = known[number % len(known)]
        for model in models:
            if step == "l":
                model.partial_fit(MEANS[[number % 600]], [label if number % 3 else f"n{i}"])
            elif step == "f" and len(known) > 1:
                model.forget_class(label)
            elif step == "r":
                model.rename_class(label, f"renamed {i}")
            elif step == "m":
                model.merge_classes([label, known[-1]], f"m{i}")
    for model in models:
        np.testing.assert_array_equal(model.predict(SAMPLES), by_hand(model))
        assert model.predict(SAMPLES).dtype == loads(dumps(model)).predict(SAMPLES).dtype


def test_the_nearest_class_mean_never_answers_unknown():
    exact, approximate = (fitted(index, kind=NearestClassMean) for index in ("exact", "approximate"))
    np.testing.assert_array_equal(approximate.predict(SAMPLES), exact.predict(SAMPLES))
    np.testing.assert_allclose(approximate.predict_proba(SAMPLES), exact.predict_proba(SAMPLES))


def test_the_index_is_a_parameter_like_any_other():
    model = fitted("approximate")
    assert clone(model).index == "approximate"
    assert model.set_params(index="exact").optimize() is model
    assert type(model.class_means_.index) is ExactIndex
    with pytest.raises(ValueError, match="'index' parameter"):
        NearestNonOutlier(PLAIN, tau=1.0, index="fast").fit(MEANS, np.arange(600))


def test_learning_never_makes_the_index_anew_but_optimize_does(monkeypatch):
    monkeypatch.setattr(choice, "APPROXIMATE_FROM", 601)
    model = fitted("auto")
    model.partial_fit(SAMPLES[-3:], [700, 701, 702])
    assert type(model.class_means_.index) is ExactIndex
    before = model.predict(SAMPLES)
    model.optimize()
    assert type(model.class_means_.index) is ApproximateIndex
    np.testing.assert_array_equal(model.predict(SAMPLES), before)
    kept = model.class_means_.index
    model.partial_fit(SAMPLES[-6:-3], [703, 704, 705])
    model.forget_class(703)
    assert model.class_means_.index is kept


def test_a_metric_that_moves_is_searched_exactly(monkeypatch):
    class Moving(EuclideanMetric):
        def partial_fit(self, X, y):
            return self

    monkeypatch.setattr(choice, "APPROXIMATE_FROM", 100)
    moving = NearestNonOutlier(Moving(), tau=1.0).fit(MEANS, np.arange(600))
    assert type(moving.class_means_.index) is ExactIndex
    assert (
        type(NearestNonOutlier(PLAIN, tau=1.0).fit(MEANS, np.arange(600)).class_means_.index)
        is ApproximateIndex
    )


def test_parts_add_up_to_the_whole():
    whole = fitted("approximate")
    part = whole.without_classes()
    part.partial_fit(SAMPLES[-2:], [1_000, 1_001])
    total = whole + part
    whole.partial_fit(SAMPLES[-2:], [1_000, 1_001])
    assert type(total.class_means_.index) is ApproximateIndex
    np.testing.assert_array_equal(total.predict(SAMPLES), whole.predict(SAMPLES))


# --- Model files ---


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("index", ["exact", "approximate"])
def test_a_saved_index_is_not_trained_again(index, mapped, tmp_path, monkeypatch):
    model = fitted(index)
    model.partial_fit(SAMPLES[-2:], [1_000, 1_001])
    model.forget_class(0)
    save(model, tmp_path / "model.ow")
    monkeypatch.setattr("openworld.index.approximate.train", lambda *given: pytest.fail("trained again"))
    loaded = load(tmp_path / "model.ow", mapped=mapped)
    assert loaded.index == index
    assert type(loaded.class_means_.index) is type(model.class_means_.index)
    for dtype in (np.float32, np.float64):
        samples = SAMPLES.astype(dtype)
        np.testing.assert_array_equal(loaded.predict(samples), model.predict(samples))
        np.testing.assert_array_equal(loaded.decision_function(samples), model.decision_function(samples))
        for found, expected in zip(
            loaded.nearest_classes(samples), model.nearest_classes(samples), strict=True
        ):
            np.testing.assert_array_equal(found, expected)


def is_mapped(array):
    while isinstance(array, np.ndarray):
        array = array.base
    return type(array).__name__ == "mmap"


def test_a_mapped_model_learns_and_leaves_its_file_alone(tmp_path):
    path = tmp_path / "model.ow"
    model = fitted("approximate")
    save(model, path)
    written = path.read_bytes()
    loaded = load(path, mapped=True)
    assert is_mapped(loaded.class_means_.index.means)
    assert is_mapped(loaded.statistics_.sums)
    assert not is_mapped(load(path).class_means_.index.means)
    for one in (model, loaded):
        one.partial_fit(SAMPLES[:2], [3, 5])
        one.merge_classes([7, 9], 8)
        one.forget_class(11)
        one.partial_fit(SAMPLES[-2:], [1_000, 1_001])
    assert is_mapped(loaded.class_means_.index.means)  # new rows have room behind the others
    for some in range(0, 1_500, 100):
        for one in (model, loaded):
            one.partial_fit(SAMPLES[some % 200 :][:100] + some, np.arange(some, some + 100)[:50].repeat(2))
        np.testing.assert_array_equal(loaded.class_means_.index.means, model.class_means_.index.means)
        np.testing.assert_array_equal(loaded.statistics_.sums, model.statistics_.sums)
    np.testing.assert_array_equal(loaded.predict(SAMPLES), model.predict(SAMPLES))
    assert not is_mapped(loaded.statistics_.sums)
    assert path.read_bytes() == written
    save(loaded, path)  # over the file that is mapped
    np.testing.assert_array_equal(load(path).predict(SAMPLES), model.predict(SAMPLES))
    np.testing.assert_array_equal(loaded.predict(SAMPLES), model.predict(SAMPLES))


def test_an_open_world_model_can_be_mapped(tmp_path):
    X, y = SAMPLES[:200], np.arange(200) % 10
    model = OpenWorldRecognizer(n_lifted=0).fit(X, y)
    save(model, tmp_path / "model.ow", exact=True)
    loaded = load(tmp_path / "model.ow", mapped=True)
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    for one in (model, loaded):
        one.partial_fit(SAMPLES[200:], np.arange(50) % 2 + 10)
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


def test_only_verify_compares_the_checksum_of_a_mapped_file(tmp_path):
    path = tmp_path / "model.ow"
    save(fitted("exact"), path)
    verify(path)
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    load(path, mapped=True)
    for read in (verify, load):
        with pytest.raises(ModelFileError, match="altered"):
            read(path)
    path.write_bytes(data[:-8])
    for read in (verify, lambda cut: load(cut, mapped=True)):
        with pytest.raises(ModelFileError, match="damaged"):
            read(path)
