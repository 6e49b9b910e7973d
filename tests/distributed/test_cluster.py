"""A real cluster: the same results as on one machine, also when a worker dies; bad parts are named."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from openworld import (
    AdaptiveMetric,
    EuclideanMetric,
    NCMMetric,
    NearestNonOutlier,
    OpenWorldRecognizer,
    SoftmaxThreshold,
)
from openworld.data.errors import DataError
from openworld.data.stream import Stream
from openworld.data.streams import open_stream
from openworld.distributed import (
    LOCAL,
    class_statistics,
    connect,
    fit,
    fit_metric,
    learn,
    recognize,
    write_features,
)
from openworld.distributed.cluster import DaskEngine
from openworld.recognition import ClassStatistics
from openworld.samples import Extraction, open_samples

Data = tuple[np.ndarray, np.ndarray]


def answers(model: Any, stream: Stream, engine: Any) -> np.ndarray:
    return np.concatenate([part.judgement.labels for part in recognize(model, stream, engine)])


def same(a: ClassStatistics, b: ClassStatistics) -> bool:
    """Bit for bit: the order of summation is the same."""
    return (
        a.labels == b.labels
        and np.array_equal(a.counts, b.counts)
        and np.array_equal(a.sums, b.sums)
        and np.array_equal(a.scatter, b.scatter)
    )


def test_statistics(engine: DaskEngine, stream: Stream, data: Data) -> None:
    found = class_statistics(stream, engine)
    assert same(found, class_statistics(stream, LOCAL))
    whole = ClassStatistics("pooled").add(*data)
    order = [found.row(label) for label in whole.labels]
    assert np.allclose(found.sums[order], whole.sums, rtol=1e-10, atol=0)
    assert np.allclose(found.scatter, whole.scatter, rtol=1e-10, atol=1e-10)


def test_open_world_recognizer(engine: DaskEngine, stream: Stream, data: Data) -> None:
    there, here = (
        fit(OpenWorldRecognizer(n_lifted=0), stream, where, held_in_memory=0).model
        for where in (engine, LOCAL)
    )
    assert same(there.statistics_, here.statistics_)
    assert there.calibration_ == here.calibration_
    expected = here.predict(data[0])
    assert np.array_equal(answers(there, stream, engine), expected)
    assert np.array_equal(expected, OpenWorldRecognizer(n_lifted=0).fit(*data).predict(data[0]))
    more = learn(there, stream, engine).model
    assert same(more.statistics_, learn(here, stream, LOCAL).model.statistics_)


@pytest.mark.parametrize("kind", [NearestNonOutlier, SoftmaxThreshold])
def test_metric_and_calibration_of_the_recognizers_by_means(
    engine: DaskEngine, stream: Stream, data: Data, kind: Any
) -> None:
    there, here = (
        fit(kind(NCMMetric(3, max_iter=4)), stream, where, held_in_memory=0).model
        for where in (engine, LOCAL)
    )
    assert np.allclose(there.metric_.W_, here.metric_.W_, rtol=1e-10)
    assert there.tau_ == pytest.approx(here.tau_, rel=1e-10)
    assert np.array_equal(answers(there, stream, engine), answers(here, stream, LOCAL))


def test_adaptive_metric(engine: DaskEngine, stream: Stream) -> None:
    there, here = (fit_metric(AdaptiveMetric(standardize=True), stream, where) for where in (engine, LOCAL))
    assert same(there.statistics_, here.statistics_)
    assert np.array_equal(there.whitening_.map, here.whitening_.map)


def test_the_scheduler_sees_references_only(engine: DaskEngine, stream: Stream) -> None:
    """Nothing as large as a part's samples is in what the scheduler is given to run."""
    from distributed.protocol import serialize

    part_bytes = len(stream.parts[0]) * stream.n_features * 4
    n_bytes = sum(len(frame) for frame in serialize(stream.parts[0])[1])
    assert n_bytes < part_bytes / 3
    assert engine.client.direct_to_workers


class Slow:
    """A part that takes a while, and says on which process it was read."""

    def __init__(self, part: Any, folder: str) -> None:
        self.part, self.folder = part, folder

    def __len__(self) -> int:
        return len(self.part)

    def __str__(self) -> str:
        return str(self.part)

    def batches(self) -> Any:
        Path(self.folder, f"{os.getpid()}-{self.part.start}").touch()
        time.sleep(0.1)
        return self.part.batches()


def test_a_worker_killed_in_the_middle_changes_nothing(
    engine: DaskEngine, stream: Stream, tmp_path: Path
) -> None:
    expected = class_statistics(stream, LOCAL)
    seen = tmp_path / "seen"
    seen.mkdir()
    slow = Stream(stream.name, [Slow(part, str(seen)) for part in stream.parts], stream.n_features, True)
    killed: list[int] = []

    def kill_one() -> None:
        while len(list(seen.iterdir())) < 8:  # parts have been read, and their sums are on the workers
            time.sleep(0.01)
        pids = engine.client.run(os.getpid)
        killed.append(next(iter(pids.values())))
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    found = class_statistics(slow, engine)
    killer.join()
    assert same(found, expected)
    assert any(path.name.startswith(f"{killed[0]}-") for path in seen.iterdir())
    readings = [int(path.name.split("-")[1]) for path in seen.iterdir()]
    assert len(readings) > len(set(readings)), "what the dead worker had was read again elsewhere"


def test_all_workers_killed_and_the_model_is_sent_again(
    engine: DaskEngine, stream: Stream, data: Data, tmp_path: Path
) -> None:
    model = NearestNonOutlier(EuclideanMetric(), tau=2.0).fit(*data)
    seen = tmp_path / "seen"
    seen.mkdir()
    slow = Stream(stream.name, [Slow(part, str(seen)) for part in stream.parts], stream.n_features, True)
    found = recognize(model, slow, engine)
    first = next(found)
    for pid in set(engine.client.run(os.getpid).values()):
        os.kill(pid, signal.SIGKILL)
    rest = [part.judgement.labels for part in found]
    assert np.array_equal(np.concatenate([first.judgement.labels, *rest]), model.predict(data[0]))


def test_a_bad_part_is_named(engine: DaskEngine, tmp_path: Path, data: Data) -> None:
    X = data[0].copy()
    X[700, 1] = np.inf
    np.save(tmp_path / "bad.npy", X)
    np.save(tmp_path / "bad.labels.npy", data[1])
    bad = open_stream(tmp_path / "bad.npy", part_bytes=130 * 24)
    with pytest.raises(DataError, match=r"bad.npy, samples 651 to 780: sample 701, feature number 2: inf"):
        class_statistics(bad, engine)
    np.save(tmp_path / "bad.npy", data[0])
    (tmp_path / "bad.npy").write_bytes((tmp_path / "bad.npy").read_bytes()[:-1000])
    with pytest.raises(DataError, match=r"bad.npy: the file is truncated"):
        list(recognize(OpenWorldRecognizer(n_lifted=0).fit(*data), bad, engine))


def test_files_at_an_address(engine: DaskEngine, stream: Stream, tmp_path: Path) -> None:
    remote = open_stream(f"file://{tmp_path}/x.npy", batch_bytes=50 * 24, part_bytes=130 * 24)
    assert remote.parts[0].path.startswith("file://")
    assert same(class_statistics(remote, engine), class_statistics(stream, LOCAL))


def test_features_of_pictures(engine: DaskEngine, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for i in range(12):
        folder = tmp_path / "pictures" / ("odd" if i % 2 else "even")
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(folder / f"{i}.png")
    stream = open_samples(
        tmp_path / "pictures", extraction=Extraction("pixels", cache=False), items_in_a_part=4
    )
    there = write_features(stream, str(tmp_path / "there"), engine)
    here = write_features(stream, str(tmp_path / "here"), LOCAL)
    assert len(there) == len(here) == 3
    for a, b in zip(open_stream(there).batches(), open_stream(here).batches(), strict=True):
        assert np.array_equal(a.X, b.X)
        assert np.array_equal(a.y, b.y)


def test_where_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openworld.distributed.cluster._SECONDS_TO_CONNECT", 0.5)
    with (
        pytest.raises(ValueError, match=r"No Dask scheduler answers at tcp://127.0.0.1:1 .*dask scheduler"),
        connect("tcp://127.0.0.1:1"),
    ):
        pass


def test_connect_to_an_address(cluster: Any, engine: DaskEngine, stream: Stream) -> None:
    with connect(cluster.scheduler_address) as found:
        assert isinstance(found, DaskEngine)
        assert same(class_statistics(stream, found), class_statistics(stream, LOCAL))
    with connect(None) as found:
        assert found is LOCAL
