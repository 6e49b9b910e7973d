"""fit, learn and recognize on streams and on a cluster; killed processes continue where they stopped."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from PIL import Image

import openworld
from openworld import samples
from openworld.data import streams
from openworld.distributed import answering, learning

N, D, PART = 2000, 5, 100
SIZES = {"batch_bytes": 50 * 4 * D, "part_bytes": PART * 4 * D}

# Small parts that take a while, so that there is something to interrupt.
SLOW = """
import sys, time
from openworld.cli import main
from openworld.data import streams
streams.open_stream.__kwdefaults__.update(batch_bytes={batch_bytes}, part_bytes={part_bytes})
read = streams.FilePart.batches
def slowly(part):
    time.sleep(0.02)
    return read(part)
streams.FilePart.batches = slowly
sys.argv[0] = "openworld"
main()
"""


@pytest.fixture
def vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[np.ndarray, np.ndarray]:
    """Twenty parts in `x.npy`, with labels beside it."""
    for name, size in SIZES.items():
        monkeypatch.setitem(streams.open_stream.__kwdefaults__, name, size)
    monkeypatch.setitem(learning.fit.__kwdefaults__, "held_in_memory", 0)
    random = np.random.default_rng(1)
    y = np.array(["ant", "bee", "cat", "dog"])[random.integers(0, 4, N)]
    centers = {name: 8 * random.standard_normal(D) for name in np.unique(y)}
    X = np.array([centers[name] for name in y.tolist()]) + random.standard_normal((N, D))
    X = X.astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "x.labels.npy", y)
    return X, y


def run_slowly_and_kill(when: Callable[[], bool], *arguments: object) -> None:
    """Start the command in a process of its own and kill it, without mercy, as soon as it is far enough."""
    code = SLOW.format(**SIZES)
    process = subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stderr=subprocess.PIPE)
    while not when():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def calls(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[int]:
    """Note where each part that is worked on starts."""
    original, seen = getattr(module, name), []

    def spy(part: Any, *others: Any) -> Any:
        seen.append(part.start)
        return original(part, *others)

    monkeypatch.setattr(module, name, spy)
    return seen


def test_fit_learn_recognize_a_stream(run: Any, vectors: Any, tmp_path: Path) -> None:
    X, y = vectors
    run("fit", tmp_path / "x.npy", "-o", tmp_path / "m.ow")
    assert "Learned 4 classes from 2,000 samples" in run.message
    whole = openworld.OpenWorldRecognizer().fit(X, y)
    assert np.array_equal(openworld.load(tmp_path / "m.ow").predict(X), whole.predict(X))
    new = pa.table({**{f"f{i}": X[:60, i] + 90 for i in range(D)}, "label": ["eel"] * 60})
    pa.feather.write_feather(new, tmp_path / "new.arrow")
    assert "unknown" in run("recognize", tmp_path / "m.ow", tmp_path / "new.arrow")
    assert "60 of 60 answers are right" in run.message
    run("learn", tmp_path / "m.ow", tmp_path / "new.arrow")
    assert "Learned 60 samples, 1 new class; 5 classes known now" in run.message
    answers = list(csv.DictReader(run("recognize", tmp_path / "m.ow", tmp_path / "new.arrow").splitlines()))
    assert {row["answer"] for row in answers} == {"eel"}
    assert [row["sample"] for row in answers] == [str(i + 1) for i in range(60)]


def test_a_stream_and_a_file_in_memory_get_the_same_answers(run: Any, vectors: Any, tmp_path: Path) -> None:
    X, y = vectors
    np.savez(tmp_path / "x.npz", X=X, y=y)
    run("fit", tmp_path / "x.npz", "-o", tmp_path / "m.ow")
    run("recognize", tmp_path / "m.ow", tmp_path / "x.npz", "-o", tmp_path / "memory.csv")
    summary = run.message
    run("recognize", tmp_path / "m.ow", tmp_path / "x.npy", "-o", tmp_path / "stream.csv")
    assert run.message == summary
    memory, stream = (table(tmp_path / f"{name}.csv") for name in ("memory", "stream"))
    for one, other in zip(memory, stream, strict=True):
        assert float(one.pop("distance")) == pytest.approx(float(other.pop("distance")), abs=1e-6)
        assert one == other
    assert not (tmp_path / "stream.csv.progress").exists()


@pytest.mark.parametrize("recognizer", ["nno", "ncm", "softmax-threshold"])
def test_the_recognizers_by_means(run: Any, vectors: Any, tmp_path: Path, recognizer: str) -> None:
    run("fit", tmp_path / "x.npy", "-o", tmp_path / "m.ow", "--recognizer", recognizer, "--components", "3")
    assert "from 2,000 samples" in run.message
    model = openworld.load(tmp_path / "m.ow")
    assert (model.predict(vectors[0]) == vectors[1]).mean() > 0.9
    assert model.metric_.W_.shape == (D, 3)


def test_learning_continues_after_a_kill(
    run: Any, vectors: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = vectors
    few = openworld.OpenWorldRecognizer(n_lifted=0).fit(X[:300], y[:300])
    openworld.save(few, tmp_path / "m.ow")
    arguments = ("learn", tmp_path / "m.ow", tmp_path / "x.npy", "-o", tmp_path / "new.ow")
    run_slowly_and_kill((tmp_path / "new.ow.progress" / "state.json").exists, *arguments)
    assert not (tmp_path / "new.ow").exists()
    learned = calls(monkeypatch, learning, "learn_part")
    run(*arguments)
    assert learned == [1600, 1700, 1800, 1900]  # the sum over the first 16 parts was kept
    assert not (tmp_path / "new.ow.progress").exists()
    resumed, whole = openworld.load(tmp_path / "new.ow"), few.partial_fit(X, y)
    assert resumed.statistics_.counts.sum() == 300 + N
    assert np.array_equal(resumed.predict(X), whole.predict(X))


def test_answers_continue_after_a_kill(
    run: Any, vectors: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = vectors
    openworld.save(openworld.OpenWorldRecognizer(n_lifted=0).fit(X, y), tmp_path / "m.ow")
    run("recognize", tmp_path / "m.ow", tmp_path / "x.npy", "-o", tmp_path / "whole.csv")
    summary = run.message
    arguments = ("recognize", tmp_path / "m.ow", tmp_path / "x.npy", "-o", tmp_path / "a.csv")
    folder = tmp_path / "a.csv.progress"
    run_slowly_and_kill(lambda: len(list(folder.glob("*.tally"))) >= 4, *arguments)
    n_done = len(list(folder.glob("*.tally")))
    assert not (tmp_path / "a.csv").exists()
    (folder / f"{n_done:08d}.part").write_text("half a li")  # as a part cut short by the kill would leave it
    answered = calls(monkeypatch, answering, "_answer")
    run(*arguments)
    assert answered == list(range(PART * n_done, N, PART))
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert run.message == summary


def test_answers_of_another_model_are_not_kept(run: Any, vectors: Any, tmp_path: Path) -> None:
    X, y = vectors
    folder = tmp_path / "a.csv.progress"
    folder.mkdir()
    (folder / "key").write_text("of something else")
    (folder / "00000000.part").write_text("1,wrong,False,wrong,0\r\n")
    (folder / "00000000.tally").write_text('{"samples": 1}')
    openworld.save(openworld.OpenWorldRecognizer(n_lifted=0).fit(X, y), tmp_path / "m.ow")
    run("recognize", tmp_path / "m.ow", tmp_path / "x.npy", "-o", tmp_path / "a.csv")
    assert "wrong" not in (tmp_path / "a.csv").read_text()
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 1 + N


def test_an_interrupt_says_what_is_kept(
    run: Any, vectors: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = learning.learn_part

    def interrupted(part: Any, *others: Any) -> Any:
        if part.start == 17 * PART:
            raise KeyboardInterrupt
        return original(part, *others)

    monkeypatch.setattr(learning, "learn_part", interrupted)
    run("fit", tmp_path / "x.npy", "-o", tmp_path / "m.ow", code=130)
    assert "Interrupted after 1,700 of 2,000. Partial results are in" in run.message


def test_pictures_are_streamed(
    run: Any, own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(samples.open_samples.__kwdefaults__, "items_in_a_part", 10)
    monkeypatch.setitem(learning.fit.__kwdefaults__, "held_in_memory", 0)
    random = np.random.default_rng(0)
    for name, level in (("dark", 40), ("light", 200)):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for i in range(12):
            pixels = np.clip(level + 20 * random.standard_normal((8, 8, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pictures" / name / f"{i}.png")
    (tmp_path / "pictures" / "dark" / "broken.png").write_bytes(b"no")
    run("fit", tmp_path / "pictures", "-o", tmp_path / "m.ow", "--extractor", "pixels", "--recognizer", "ncm")
    assert "Learned 2 classes from 24 pictures" in run.message
    assert "broken.png" in run.message
    run("recognize", tmp_path / "m.ow", tmp_path / "pictures", "-o", tmp_path / "a.csv")
    rows = table(tmp_path / "a.csv")
    assert {row["name"].split("/")[0] for row in rows} == {"dark", "light"}
    assert all(row["answer"] == row["name"].split("/")[0] for row in rows)
    assert "broken.png" in run.message


def test_a_local_cluster(run: Any, vectors: Any, tmp_path: Path) -> None:
    run("fit", tmp_path / "x.npy", "-o", tmp_path / "here.ow")
    run("fit", tmp_path / "x.npy", "-o", tmp_path / "there.ow", "--dask", "local")
    here, there = (openworld.load(tmp_path / f"{name}.ow") for name in ("here", "there"))
    assert np.array_equal(here.statistics_.sums, there.statistics_.sums)
    assert np.array_equal(here.predict(vectors[0]), there.predict(vectors[0]))


def test_what_cannot_be_done(run: Any, vectors: Any, tmp_path: Path) -> None:
    X, y = vectors
    openworld.save(openworld.OpenWorldRecognizer(n_lifted=0).fit(X, y), tmp_path / "m.ow")
    run("recognize", tmp_path / "m.ow", tmp_path / "x.npy", "-o", tmp_path / "a.txt", code=1)
    assert "written as .csv, .json, .jsonl, .parquet" in run.message
    np.save(tmp_path / "bare.npy", X)
    run("fit", tmp_path / "bare.npy", "-o", tmp_path / "m.ow", code=1)
    assert "no labels" in run.message
    run("fit", tmp_path / "x.npy", "-o", tmp_path / "m.ow", "--extractor", "pixels", code=1)
    assert "need no extractor" in run.message


def test_groups_are_learned_part_by_part(
    run: Any, vectors: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    """Fit and learn in twenty parts with groups across them give the model of everything at once."""
    X, y = vectors
    groups = np.repeat(np.arange(N // 5), 5).astype(str)
    X[:] = X[np.arange(N) // 5 * 5]  # bursts of five copies
    y[:] = y[np.arange(N) // 5 * 5]
    features = pa.array(X.tolist(), pa.list_(pa.float32(), D))
    order = np.random.default_rng(2).permutation(N)
    bursts = pa.table({"features": features, "label": y, "burst": groups}).take(order)
    pq.write_table(bursts, tmp_path / "t.parquet", row_group_size=PART)
    model = tmp_path / "m.ow"
    run("fit", tmp_path / "t.parquet", "-o", model, "--group-column", "burst", "--no-check")
    found = openworld.load(model)
    expected = openworld.OpenWorldRecognizer().fit(X[order], y[order], groups=groups[order])
    np.testing.assert_allclose(found.membership(X), expected.membership(X), atol=1e-3)
    run("learn", model, tmp_path / "t.parquet", "--group-column", "burst", "-o", tmp_path / "twice.ow")
    twice = openworld.load(tmp_path / "twice.ow")
    expected.partial_fit(X[order], y[order], groups=groups[order])
    np.testing.assert_allclose(twice.membership(X), expected.membership(X), atol=1e-3)
