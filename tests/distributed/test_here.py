"""Streams on one machine: the same as having everything in memory, and nothing is lost when interrupted."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from scipy.spatial.distance import cdist
from scipy.special import log_softmax
from sklearn.base import clone

from openworld import (
    AdaptiveMetric,
    EuclideanMetric,
    NCMMetric,
    NearestClassMean,
    NearestNonOutlier,
    OpenWorldRecognizer,
)
from openworld.data.streams import Stream, open_stream
from openworld.data.tables import DataError
from openworld.distributed import (
    HERE,
    Checkpoint,
    class_statistics,
    fit,
    fit_metric,
    learn,
    open_items,
    recognize,
    sampling,
    write_features,
)
from openworld.distributed.engine import PARTS_IN_A_SUM, Here, run
from openworld.distributed.metrics import held_out_share
from openworld.recognition import ClassStatistics
from openworld.recognition.metric.passes import Gradient, Place

Data = tuple[np.ndarray, np.ndarray]


def close(a: ClassStatistics, b: ClassStatistics) -> bool:
    order_a, order_b = (np.argsort(s.labels) for s in (a, b))
    return (
        sorted(a.labels) == sorted(b.labels)
        and np.allclose(a.counts[order_a], b.counts[order_b], rtol=1e-10)
        and np.allclose(a.sums[order_a], b.sums[order_b], rtol=1e-10, atol=1e-10)
        and np.allclose(a.scatter, b.scatter, rtol=1e-10, atol=1e-10)
    )


def answers(model: Any, stream: Stream, engine: Any = HERE) -> np.ndarray:
    return np.concatenate([part.answers for part in recognize(model, stream, engine)])


def loss(metric: NCMMetric, X: np.ndarray, y: np.ndarray) -> float:
    """Eq. 1 or Eq. 2 on all samples, with scipy's softmax."""
    Z = metric.transform(X.astype(float))
    means = np.array([Z[y == c].mean(axis=0) for c in metric.classes_])
    exponents = (
        -cdist(Z, means, "sqeuclidean") / 2 if metric.form == "distance" else Z @ means.T + metric.biases_
    )
    return -float(log_softmax(exponents, axis=1)[np.arange(len(y)), y].mean())


def test_there_are_several_sums(stream: Stream) -> None:
    assert PARTS_IN_A_SUM < len(stream.parts) < 2 * PARTS_IN_A_SUM


def test_statistics_are_those_of_the_whole(stream: Stream, data: Data) -> None:
    assert close(class_statistics(stream), ClassStatistics("pooled").add(*data))


def test_fit_is_fit_where_the_sample_is_the_whole(stream: Stream, data: Data) -> None:
    learnt = fit(OpenWorldRecognizer(n_lifted=0), stream)
    whole = OpenWorldRecognizer(n_lifted=0).fit(*data)
    assert learnt.n_samples == len(data[0])
    assert close(learnt.model.statistics_, whole.statistics_)
    assert np.array_equal(answers(learnt.model, stream), whole.predict(data[0]))
    assert np.allclose(learnt.model.membership(data[0]), whole.membership(data[0]), atol=1e-4)


def test_fit_chooses_on_a_sample_and_learns_from_all(
    stream: Stream, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling.draw, "__defaults__", (400,))
    learnt = fit(OpenWorldRecognizer(n_lifted=0), stream)
    first = OpenWorldRecognizer(n_lifted=0).fit(*sampling.draw(stream, HERE, Counter(data[1].tolist()), 400))
    assert learnt.model.metric_.representation_.is_same(first.metric_.representation_)
    whole = (first.without_classes()).partial_fit(*data)  # the same representation, everything at once
    assert close(learnt.model.statistics_, whole.statistics_)
    assert np.array_equal(answers(learnt.model, stream), whole.predict(data[0]))


@pytest.mark.parametrize("n_threads", [2, 3])
def test_the_number_of_threads_makes_no_difference(stream: Stream, data: Data, n_threads: int) -> None:
    found = []
    for engine in (Here(1), Here(n_threads)):
        model = fit(OpenWorldRecognizer(n_lifted=0), stream, engine).model
        kept = model.reservoir_.samples(model.classes_, 100)[0]
        parts = list(recognize(model, stream, engine))
        found.append(
            [
                model.statistics_.sums,
                model.statistics_.scatter,
                kept,
                *(np.concatenate([getattr(part, name) for part in parts]) for name in ("rows", "distances")),
            ]
        )
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other)


class Meeting:
    """A part that waits for another one to be worked on at the same time."""

    side_by_side = True
    barrier = threading.Barrier(2, timeout=30)

    def __len__(self) -> int:
        return 3


def test_parts_are_worked_on_side_by_side_and_come_in_order() -> None:
    parts, done = [Meeting() for _ in range(6)], []
    found = Here(2).map(lambda part: (part.barrier.wait(), part)[1], parts, done=done.append)
    assert list(found) == parts
    assert done == [3] * 6


def test_what_was_not_begun_is_not_done_after_an_error() -> None:
    begun = []

    def work(part: Any) -> None:
        begun.append(part)
        raise ValueError("bad")

    with pytest.raises(DataError, match="bad"):
        list(Here(1).map(work, [Meeting() for _ in range(6)]))
    assert len(begun) < 3


def test_learn_is_partial_fit(stream: Stream, data: Data) -> None:
    X, y = data
    for start in (OpenWorldRecognizer(n_lifted=0), NearestNonOutlier(EuclideanMetric(), tau=2.0)):
        start.fit(X[y < 3][:200] + 0.1, y[y < 3][:200])
        before = start.predict(X)
        learnt = learn(start, stream)
        assert np.array_equal(start.predict(X), before)  # what was given stays as it is
        assert np.array_equal(answers(learnt.model, stream), start.partial_fit(X, y).predict(X))


def test_recognize_tells_what_the_model_tells(stream: Stream, data: Data) -> None:
    X, y = data
    for model in (OpenWorldRecognizer(n_lifted=0).fit(X, y), NearestClassMean(EuclideanMetric()).fit(X, y)):
        found = list(recognize(model, stream))
        nearest, distances = model.nearest_classes(X, 1)
        assert np.array_equal(np.concatenate([part.answers for part in found]), model.predict(X))
        assert np.array_equal(np.concatenate([part.nearest for part in found]), nearest[:, 0])
        assert np.allclose(np.concatenate([part.distances for part in found]), distances[:, 0])
        assert np.array_equal(np.concatenate([part.y for part in found]), y)
        assert np.array_equal(np.concatenate([part.rows for part in found]), np.arange(len(X)))


def test_adaptive_metric_from_a_stream(stream: Stream, data: Data) -> None:
    streamed = fit_metric(AdaptiveMetric(standardize=True), stream)
    whole = AdaptiveMetric(standardize=True).fit(*data)
    assert np.allclose(streamed.transform(data[0]), whole.transform(data[0]), atol=1e-5)


@pytest.mark.parametrize("form", ["distance", "dot"])
def test_ncm_metric_from_a_stream_is_as_likely_as_in_memory(stream: Stream, data: Data, form: Any) -> None:
    X, y = data
    streamed = fit_metric(NCMMetric(3, form=form, max_iter=60), stream)
    whole = NCMMetric(3, form=form).fit(X, y)
    assert min(streamed.held_out_loss_curve_) < streamed.held_out_loss_curve_[0]
    assert loss(streamed, X, y) < 1.1 * loss(whole, X, y)  # each stops early, by other held-out samples
    learnt_from = ~sampling.is_chosen(np.arange(len(X)), held_out_share(len(X)))
    assert np.allclose(streamed.mean_, X[learnt_from].mean(axis=0, dtype=float))
    assert np.allclose(streamed.scale_, X[learnt_from].std(axis=0, dtype=float))


def test_ncm_metric_does_not_mind_a_file_sorted_by_class(tmp_path: Path, stream: Stream, data: Data) -> None:
    order = np.argsort(data[1], kind="stable")
    np.save(tmp_path / "sorted.npy", data[0][order])
    np.save(tmp_path / "sorted.labels.npy", data[1][order])
    in_order = fit_metric(NCMMetric(3), open_stream(tmp_path / "sorted.npy", part_bytes=130 * 24))
    shuffled = fit_metric(NCMMetric(3), stream)
    assert min(in_order.held_out_loss_curve_) < 1.25 * min(shuffled.held_out_loss_curve_)


def test_gradients_are_those_of_finite_differences(data: Data) -> None:
    X, y = data[0][:60].astype(float), data[1][:60]
    random = np.random.default_rng(0)
    classes, D = np.unique(y), X.shape[1]
    into, V = random.standard_normal((D, D)) / 3, random.standard_normal((D, 2)) / 3
    means, biases = random.standard_normal((len(classes), D)), random.standard_normal(len(classes))
    for b in (None, biases):
        place = Place(classes, X.mean(axis=0), into, means, V, b)
        parts = Gradient.of(place, X[:25], y[:25]) + Gradient.of(place, X[25:], y[25:])
        for i, j in ((0, 0), (3, 1)):
            step = np.zeros_like(V)
            step[i, j] = 1e-5
            up, down = (
                Gradient.of(Place(classes, place.mean, into, means, V + s * step, b), X, y).loss
                for s in (1, -1)
            )
            assert parts.V[i, j] == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-6)


def test_nno_with_a_metric_from_the_stream(stream: Stream, data: Data) -> None:
    X, y = data
    steps: list[int] = []
    learnt = fit(NearestNonOutlier(NCMMetric(3, callback=lambda step, *_: steps.append(step))), stream)
    assert learnt.n_samples == len(X)
    assert np.allclose(learnt.model.statistics_.sums.sum(axis=0), X.sum(axis=0, dtype=float))
    assert steps[:2] == [0, 1]
    model = clone(NearestNonOutlier(NCMMetric(3))).fit(X, y)
    assert (learnt.model.predict(X) == y).mean() > (model.predict(X) == y).mean() - 0.05
    far = 1e3 * np.ones((1, X.shape[1]), dtype=np.float32)
    assert learnt.model.predict(far).tolist() == [-1]


def test_samples_are_uniform_bounded_and_independent_of_the_cut(tmp_path: Path) -> None:
    rows = np.arange(200_000)
    chosen = sampling.is_chosen(rows, 0.05)
    assert abs(chosen.mean() - 0.05) < 0.003
    halves = np.concatenate([sampling.is_chosen(part, 0.05) for part in np.split(rows, 2)])
    assert np.array_equal(chosen, halves)
    counts = np.bincount(rows[chosen] // 20_000, minlength=10)  # alike in every tenth
    assert counts.min() > 850
    assert counts.max() < 1150


def test_of_very_many_classes_a_thousand_are_drawn(tmp_path: Path) -> None:
    y = np.arange(6_000) // 2
    np.save(tmp_path / "x.npy", np.arange(6_000.0)[:, None])
    np.save(tmp_path / "x.labels.npy", y)
    stream = open_stream(tmp_path / "x.npy", part_bytes=1000 * 8)
    counts = sampling.class_counts(stream, HERE)
    assert counts == Counter(y.tolist())
    _, drawn = sampling.draw(stream, HERE, counts)
    assert len(np.unique(drawn)) == sampling.CLASSES
    assert set(Counter(drawn.tolist()).values()) == {2}  # all of each


class Killed(BaseException):
    """What no code can handle."""


@pytest.mark.parametrize("recognizer", [OpenWorldRecognizer(n_lifted=0), NearestNonOutlier(NCMMetric(3))])
def test_interrupted_fit_goes_on_to_the_same_model(
    tmp_path: Path, stream: Stream, data: Data, recognizer: Any
) -> None:
    whole = fit(recognizer, stream)
    learnt_from: list[int] = []

    def stop_late(n: int) -> None:
        learnt_from.append(n)
        if len(learnt_from) == PARTS_IN_A_SUM + 2:
            raise Killed

    folder = tmp_path / "progress"
    with pytest.raises(Killed):
        fit(recognizer, stream, progress=stop_late, checkpoint=Checkpoint(folder, stream, recognizer))
    again: list[int] = []
    checkpoint = Checkpoint(folder, stream, recognizer)
    resumed = fit(recognizer, stream, progress=again.append, checkpoint=checkpoint)
    assert again[0] == sum(map(len, stream.parts[:PARTS_IN_A_SUM]))
    assert len(again) == 1 + len(stream.parts) - PARTS_IN_A_SUM
    assert np.array_equal(resumed.model.statistics_.sums, whole.model.statistics_.sums)
    assert np.array_equal(resumed.model.predict(data[0]), whole.model.predict(data[0]))
    assert resumed.n_samples == whole.n_samples
    checkpoint.remove()
    assert not folder.exists()


def test_a_state_of_other_data_is_not_used(tmp_path: Path, stream: Stream, data: Data) -> None:
    model = OpenWorldRecognizer(n_lifted=0).fit(*data)
    learnt = learn(model, stream, checkpoint=Checkpoint(tmp_path / "progress", stream, model))
    assert Checkpoint(tmp_path / "progress", stream, model).load() is not None
    assert Checkpoint(tmp_path / "progress", stream, learnt.model).load() is None  # another model
    np.save(tmp_path / "x.npy", data[0][::-1].copy())
    assert Checkpoint(tmp_path / "progress", stream, model).load() is None  # another file


def test_what_cannot_be_learnt(tmp_path: Path, stream: Stream, data: Data) -> None:
    np.save(tmp_path / "bare.npy", data[0])
    bare = open_stream(tmp_path / "bare.npy")
    with pytest.raises(DataError, match="no labels"):
        fit(OpenWorldRecognizer(), bare)
    with pytest.raises(DataError, match="no labels"):
        learn(OpenWorldRecognizer(n_lifted=0).fit(*data), bare)
    with pytest.raises(ValueError, match="discriminant"):
        fit_metric(NCMMetric(solver="sgd"), stream)
    with pytest.raises(ValueError, match="n_components=99"):
        fit_metric(NCMMetric(99), stream)
    np.save(tmp_path / "x.labels.npy", np.full(len(data[1]), -1))
    with pytest.raises(DataError, match=r"x\.npy, samples 1 to 130: .*unknown"):
        learn(OpenWorldRecognizer(n_lifted=0).fit(*data), stream)


def test_an_error_of_a_part_names_it_once() -> None:
    def broken(part: str) -> None:
        raise DataError("part 7: bad")

    with pytest.raises(DataError, match=r"^part 7: bad$"):
        run(broken, "part 7")
    with pytest.raises(DataError, match=r"^part 8: part 7: bad$"):
        run(broken, "part 8")


# -- pictures -----------------------------------------------------------------------------------------


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENWORLD_CACHE", str(tmp_path / "cache"))
    random = np.random.default_rng(0)
    for name, level in (("dark", 40), ("light", 200)):
        folder = tmp_path / "pictures" / name
        folder.mkdir(parents=True)
        for i in range(12):
            pixels = np.clip(level + 20 * random.standard_normal((16, 16, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{i:02d}.png")
    (tmp_path / "pictures" / "light" / "broken.png").write_bytes(b"no picture")
    Image.new("RGB", (16, 16)).save(tmp_path / "pictures" / "loose.png")
    return tmp_path / "pictures"


def test_pictures_are_a_stream(pictures: Path, tmp_path: Path) -> None:
    stream = open_items(pictures, extractor="pixels", need_labels=True, items_in_a_part=5)
    learnt = fit(OpenWorldRecognizer(n_lifted=0), stream)
    assert learnt.model.classes_.tolist() == ["dark", "light"]
    assert (learnt.n_samples, learnt.n_unlabelled, learnt.n_failures) == (24, 1, 1)
    assert "broken.png" in learnt.failures[0][0]
    found = list(recognize(learnt.model, open_items(pictures, extractor="pixels", items_in_a_part=7)))
    names = [name for part in found for name in part.names or []]
    assert len(names) == 25
    assert all(
        "/" not in name or str(answer) in (name.split("/")[0], "unknown")
        for name, answer in zip(names, np.concatenate([part.answers for part in found]), strict=True)
    )


def test_features_are_written_part_by_part(pictures: Path, tmp_path: Path) -> None:
    stream = open_items(pictures, extractor="pixels", need_labels=True, items_in_a_part=9)
    paths = write_features(stream, str(tmp_path / "features"))
    assert len(paths) == len(stream.parts)
    written = open_stream(f"{tmp_path}/features/*.parquet")
    direct = [batch for part in stream.parts for batch in part.batches()]
    assert np.array_equal(
        np.concatenate([b.X for b in written.batches()]), np.concatenate([b.X for b in direct])
    )
    assert np.array_equal(
        np.concatenate([b.y for b in written.batches()]), np.concatenate([b.y for b in direct])
    )
    assert written.extractor == stream.extractor
    first = Path(paths[0].removeprefix("file://"))
    pq.write_table(pa.table({"kept": [1]}), first)
    write_features(stream, str(tmp_path / "features"))
    assert pq.read_table(first).column_names == ["kept"]  # what is there is not made again
