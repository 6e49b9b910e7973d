"""Learning from a stream is learning from everything at once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import BaseEstimator, clone

from openworld import EuclideanMetric, NCMMetric, NearestNonOutlier, OpenWorldRecognizer
from openworld.data.columns import Columns
from openworld.data.errors import DataError
from openworld.data.stream import Stream
from openworld.data.streams import open_stream
from openworld.distributed import (
    LOCAL,
    class_statistics,
    fit,
    fit_metric,
    learn,
    recognize,
    sampling,
    takes_groups,
)
from openworld.distributed.engine import PARTS_IN_A_SUM, LocalEngine
from openworld.recognition import ClassStatistics
from openworld.samples import Extraction, open_samples

Data = tuple[np.ndarray, np.ndarray]
PIXELS = Extraction("pixels")


def close(a: ClassStatistics, b: ClassStatistics) -> bool:
    order_a, order_b = (np.argsort(s.labels) for s in (a, b))
    return (
        sorted(a.labels) == sorted(b.labels)
        and np.allclose(a.counts[order_a], b.counts[order_b], rtol=1e-10)
        and np.allclose(a.sums[order_a], b.sums[order_b], rtol=1e-10, atol=1e-10)
        and np.allclose(a.scatter, b.scatter, rtol=1e-10, atol=1e-10)
    )


def answers(model: Any, stream: Stream, engine: Any = LOCAL) -> np.ndarray:
    return np.concatenate([part.judgement.labels for part in recognize(model, stream, engine)])


def test_there_are_several_sums(stream: Stream) -> None:
    assert PARTS_IN_A_SUM < len(stream.parts) < 2 * PARTS_IN_A_SUM


def test_statistics_are_those_of_the_whole(stream: Stream, data: Data) -> None:
    assert close(class_statistics(stream), ClassStatistics("pooled").add(*data))


def test_fit_is_fit_where_the_sample_is_the_whole(stream: Stream, data: Data) -> None:
    learned = fit(OpenWorldRecognizer(n_lifted=0), stream, held_in_memory=0)
    whole = OpenWorldRecognizer(n_lifted=0).fit(*data)
    assert learned.n_samples == len(data[0])
    assert close(learned.model.statistics_, whole.statistics_)
    assert np.array_equal(answers(learned.model, stream), whole.predict(data[0]))
    assert np.allclose(learned.model.membership(data[0]), whole.membership(data[0]), atol=1e-4)


def test_fit_chooses_on_a_sample_and_learns_from_all(
    stream: Stream, data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling.draw, "__defaults__", (400,))
    learned = fit(OpenWorldRecognizer(n_lifted=0), stream, held_in_memory=0)
    drawn = sampling.draw(stream, LOCAL, Counter(data[1].tolist()), 400)
    first = OpenWorldRecognizer(n_lifted=0).fit(drawn.X, drawn.y)
    assert learned.model.metric_.representation_.is_same(first.metric_.representation_)
    whole = (first.without_classes()).partial_fit(*data)  # the same representation, everything at once
    assert close(learned.model.statistics_, whole.statistics_)
    assert np.array_equal(answers(learned.model, stream), whole.predict(data[0]))


@pytest.mark.parametrize("n_threads", [2, 3])
def test_the_number_of_threads_makes_no_difference(stream: Stream, data: Data, n_threads: int) -> None:
    found = []
    for engine in (LocalEngine(1), LocalEngine(n_threads)):
        model = fit(OpenWorldRecognizer(n_lifted=0), stream, engine, held_in_memory=0).model
        kept = model.reservoir_.samples(model.classes_, 100)[0]
        parts = list(recognize(model, stream, engine))
        found.append(
            [
                model.statistics_.sums,
                model.statistics_.scatter,
                kept,
                np.concatenate([part.batch.rows for part in parts]),
                np.concatenate([part.judgement.distances for part in parts]),
            ]
        )
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other)


def test_learn_is_partial_fit(stream: Stream, data: Data) -> None:
    X, y = data
    for start in (OpenWorldRecognizer(n_lifted=0), NearestNonOutlier(EuclideanMetric(), tau=2.0)):
        start.fit(X[y < 3][:200] + 0.1, y[y < 3][:200])
        before = start.predict(X)
        learned = learn(start, stream)
        assert np.array_equal(start.predict(X), before)  # what was given stays as it is
        assert np.array_equal(answers(learned.model, stream), start.partial_fit(X, y).predict(X))


def test_nno_with_a_metric_from_the_stream(stream: Stream, data: Data) -> None:
    X, y = data
    steps: list[int] = []
    recognizer = NearestNonOutlier(NCMMetric(3, callback=lambda step, *_: steps.append(step)))
    learned = fit(recognizer, stream, held_in_memory=0)
    assert learned.n_samples == len(X)
    assert np.allclose(learned.model.statistics_.sums.sum(axis=0), X.sum(axis=0, dtype=float))
    assert steps[:2] == [0, 1]
    model = clone(NearestNonOutlier(NCMMetric(3))).fit(X, y)
    assert (learned.model.predict(X) == y).mean() > (model.predict(X) == y).mean() - 0.05
    far = 1e3 * np.ones((1, X.shape[1]), dtype=np.float32)
    assert learned.model.predict(far).tolist() == [-1]


def test_what_cannot_be_learned(tmp_path: Path, stream: Stream, data: Data) -> None:
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


def test_pictures_are_a_stream(pictures: Path, tmp_path: Path) -> None:
    stream = open_samples(pictures, extraction=PIXELS, need_labels=True, items_in_a_part=5)
    learned = fit(OpenWorldRecognizer(n_lifted=0), stream, held_in_memory=0)
    assert learned.model.classes_.tolist() == ["dark", "light"]
    assert (learned.n_samples, learned.n_unlabeled, learned.n_failures) == (24, 1, 1)
    assert "broken.png" in learned.failures[0][0]
    found = list(recognize(learned.model, open_samples(pictures, extraction=PIXELS, items_in_a_part=7)))
    names = [name for part in found for name in part.batch.names or []]
    assert len(names) == 25
    assert all(
        "/" not in name or str(answer) in (name.split("/")[0], "unknown")
        for name, answer in zip(names, np.concatenate([part.judgement.labels for part in found]), strict=True)
    )


def test_a_model_without_classes_learns_pictures(pictures: Path) -> None:
    stream = open_samples(pictures, extraction=Extraction("pixels"), need_labels=True)
    model = fit(OpenWorldRecognizer(n_lifted=0), stream).model
    learned = learn(model.without_classes(), stream)
    assert learned.model.classes_.tolist() == model.classes_.tolist()
    assert learned.n_samples == 24


class GroupsSeen(BaseEstimator):
    """A recognizer that only remembers which group each sample was learned with."""

    calibrates_itself = True

    def fit(self, X: np.ndarray, y: np.ndarray, groups: np.ndarray | None = None) -> GroupsSeen:
        self.seen_ = self.fitted_ = Counter[tuple[float, str]]()
        return self.partial_fit(X, y, groups)

    def partial_fit(self, X: np.ndarray, y: np.ndarray, groups: np.ndarray | None = None) -> GroupsSeen:
        assert groups is not None
        self.seen_ = self.seen_ + Counter(zip(X[:, 0].tolist(), groups.tolist(), strict=True))
        self.fitted_ = self.fitted_ or self.seen_
        return self

    def without_classes(self) -> GroupsSeen:
        empty = GroupsSeen()
        empty.seen_, empty.fitted_ = Counter(), self.fitted_
        return empty

    def __add__(self, other: GroupsSeen) -> GroupsSeen:
        total = self.without_classes()
        total.seen_ = self.seen_ + other.seen_
        return total


@pytest.fixture
def bursts(tmp_path: Path) -> tuple[Data, np.ndarray, Stream]:
    """Ten copies of each of 120 samples, in 12 parts that the groups cross; every fifth is of no group."""
    random, n_features = np.random.default_rng(5), 6
    y = np.repeat(np.arange(6), 200)
    X = 3 * random.standard_normal((6, n_features))[y] + np.repeat(
        random.standard_normal((120, n_features)), 10, axis=0
    )
    X = (X + 0.01 * random.standard_normal(X.shape)).astype(np.float32)
    groups = np.where(np.arange(1200) % 50 < 10, "", np.repeat(np.arange(120), 10).astype(str))
    order = random.permutation(1200)
    X, y, groups = X[order], y[order], groups[order]
    features = pa.array(X.tolist(), pa.list_(pa.float32(), n_features))
    table = pa.table({"features": features, "label": y, "burst": groups})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=100)
    stream = open_stream(
        tmp_path / "t.parquet", columns=Columns(group="burst"), batch_bytes=70 * 24, part_bytes=100 * 24
    )
    assert len(stream.parts) == 12
    return (X, y), groups, stream


@pytest.mark.parametrize("held_in_memory", [0, 1 << 20])
def test_fit_learns_every_sample_with_its_group(
    bursts: tuple[Data, np.ndarray, Stream], held_in_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (X, _), groups, stream = bursts
    expected = Counter(zip(X[:, 0].tolist(), groups.tolist(), strict=True))
    monkeypatch.setattr(sampling.draw, "__defaults__", (400,))
    model = fit(GroupsSeen(), stream, held_in_memory=held_in_memory).model
    assert model.seen_ == expected
    assert model.fitted_ <= expected  # what the representation is chosen on: a sample, or everything
    assert (300 < model.fitted_.total() < 500) == (held_in_memory == 0)
    assert learn(GroupsSeen().fit(X[:1], X[:1], groups[:1]), stream).model.seen_ == expected + Counter(
        [(float(X[0, 0]), str(groups[0]))]
    )


def test_groups_in_parts_are_groups_at_once(bursts: tuple[Data, np.ndarray, Stream]) -> None:
    data, groups, stream = bursts
    whole = OpenWorldRecognizer(n_lifted=0).fit(*data, groups=groups)
    memberships = whole.membership(data[0])
    for held_in_memory in (0, 1 << 20):
        learned = fit(OpenWorldRecognizer(n_lifted=0), stream, held_in_memory=held_in_memory)
        assert np.allclose(learned.model.membership(data[0]), memberships, atol=1e-4)
    ungrouped = OpenWorldRecognizer(n_lifted=0).fit(*data)
    assert not np.allclose(ungrouped.membership(data[0]), memberships, atol=1e-2)


def test_a_recognizer_that_takes_no_groups_says_so(bursts: tuple[Data, np.ndarray, Stream]) -> None:
    data, _, stream = bursts
    nno = NearestNonOutlier(EuclideanMetric(), tau=2.0)
    assert takes_groups(OpenWorldRecognizer())
    assert not takes_groups(nno)
    for held_in_memory in (0, 1 << 20):
        with pytest.raises(DataError, match="have groups, which a NearestNonOutlier does not take"):
            fit(nno, stream, held_in_memory=held_in_memory)
    with pytest.raises(DataError, match="have groups, which a NearestNonOutlier does not take"):
        learn(nno.fit(*data), stream)
