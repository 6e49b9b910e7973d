"""Learning from a stream is learning from everything at once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from openworld import EuclideanMetric, NCMMetric, NearestNonOutlier, OpenWorldRecognizer
from openworld.data.errors import DataError
from openworld.data.stream import Stream
from openworld.data.streams import open_stream
from openworld.distributed import LOCAL, class_statistics, fit, fit_metric, learn, recognize, sampling
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
