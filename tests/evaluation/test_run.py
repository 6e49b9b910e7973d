"""Running experiments: the same table however it is run, nothing done twice, nothing stale used."""

from __future__ import annotations

import csv
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from openworld import NearestNonOutlier
from openworld._version import __version__
from openworld.data.dataset import load_dataset
from openworld.evaluation import recognizers, run
from openworld.evaluation.experiment import Experiment, experiment_from
from openworld.evaluation.protocol import run_protocol
from openworld.evaluation.run import read_facts, read_results, read_scores, run_experiment

Jobs = list[tuple[str, str, int]]


def save_blobs(path: Path, n_classes: int = 12, seed: int = 0) -> Path:
    random = np.random.default_rng(seed)
    y = np.repeat([f"c{i}" for i in range(n_classes)], 12)
    centers = np.repeat(2 * random.standard_normal((n_classes, 4)), 12, axis=0)
    np.savez(path, X=centers + random.standard_normal(centers.shape), y=y)
    return path


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    path = save_blobs(tmp_path / "blobs.npz")
    return Experiment("toy", (str(path),), ("NCM", "NNO"), 3, 2, 6, unknown=(2, 4), orders=2)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """The jobs that were really run in this process."""
    jobs: Jobs = []
    run_job = run.run_job

    def spy(job: run.Job, parts: Path) -> None:
        jobs.append((Path(job.data).stem, job.recognizer, job.order))
        run_job(job, parts)

    monkeypatch.setattr(run, "run_job", spy)
    return jobs


ALL = [("blobs", "NCM", 0), ("blobs", "NNO", 0), ("blobs", "NCM", 1), ("blobs", "NNO", 1)]


def parts_of(output: Path, ending: str = "json") -> list[Path]:
    return sorted(path for path in (output / "parts").glob(f"*.{ending}") if not path.name.startswith("."))


def test_the_table_does_not_depend_on_the_workers(experiment: Experiment, tmp_path: Path) -> None:
    tables = []
    experiment = replace(experiment, recognizers=("NNO",), tau_factors=(0.8, 1.0))
    for workers in (0, 1, 2):
        output = tmp_path / f"workers {workers}"
        run_experiment(experiment, output, workers=workers)
        tables.append((output / "results.csv").read_bytes())
        assert not list(output.rglob(".*")), "no temporary file is left"
    assert tables[0] == tables[1] == tables[2]


def test_the_table_holds_what_the_protocol_measures(experiment: Experiment, tmp_path: Path) -> None:
    run_experiment(experiment, tmp_path / "out", workers=0)
    rows = read_results(tmp_path / "out")
    dataset = load_dataset(experiment.data[0])
    outcome = run_protocol(NearestNonOutlier(), dataset, experiment.split(dataset, 1), experiment)
    expected = [{"data": experiment.data[0], "recognizer": "NNO", "order": 1, **row} for row in outcome.rows]
    assert [row for row in rows if (row["recognizer"], row["order"]) == ("NNO", 1)] == expected
    assert [*dict.fromkeys((row["recognizer"], row["order"]) for row in rows)] == [job[1:] for job in ALL]
    with (tmp_path / "out" / "results.csv").open(newline="") as file:
        assert next(file) == "data,recognizer,order,K,U,tau_factor,measure,value\n"
    with (tmp_path / "out" / "timings.csv").open(newline="") as file:
        timings = list(csv.DictReader(file))
    assert [*timings[0]] == ["data", "recognizer", "order", "K", "what", "seconds"]
    assert len(timings) == len(ALL) * 6  # three stages: learning and testing
    assert all(float(row["seconds"]) > 0 for row in timings)


def test_a_job_has_one_blas_thread(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more of them the last digits would depend on the machine."""
    threads: list[int] = []

    def spy(*arguments: Any) -> Any:
        threads.extend(pool["num_threads"] for pool in threadpool_info())
        return run_protocol(*arguments)

    monkeypatch.setattr(run, "run_protocol", spy)
    with threadpool_limits(2):
        run_experiment(replace(experiment, orders=1), tmp_path / "out", workers=0)
    assert set(threads) == {1}


def test_values_survive_the_file_exactly(experiment: Experiment, tmp_path: Path) -> None:
    run_experiment(experiment, tmp_path / "out", workers=0)
    kept = [
        row["value"] for path in parts_of(tmp_path / "out") for row in json.loads(path.read_text())["rows"]
    ]
    assert sorted(row["value"] for row in read_results(tmp_path / "out")) == sorted(kept)


def test_scores_of_every_class_order(experiment: Experiment, tmp_path: Path) -> None:
    run_experiment(experiment, tmp_path / "out", workers=0)
    dataset = load_dataset(experiment.data[0])
    scores = read_scores(tmp_path / "out", experiment.data[0], "NNO")
    assert len(scores) == 2
    for order, found in enumerate(scores):
        outcome = run_protocol(NearestNonOutlier(), dataset, experiment.split(dataset, order), experiment)
        assert found.keys() == outcome.scores.keys() == {"known", "unknown", "correct"}
        assert all(np.array_equal(found[key], outcome.scores[key]) for key in found)


def test_what_is_done_is_not_done_again(experiment: Experiment, tmp_path: Path, ran: Jobs) -> None:
    output = tmp_path / "out"
    run_experiment(experiment, output, workers=0)
    assert ran == ALL
    first = (output / "results.csv").read_bytes()
    ran.clear()
    run_experiment(experiment, output, workers=0)
    assert ran == []
    assert (output / "results.csv").read_bytes() == first

    (lost,) = [path for path in parts_of(output) if "-NNO-1-" in path.name]
    lost.unlink()
    times = {path: path.stat().st_mtime_ns for path in parts_of(output)}
    run_experiment(experiment, output, workers=0)
    assert ran == [("blobs", "NNO", 1)]
    assert (output / "results.csv").read_bytes() == first
    assert all(path.stat().st_mtime_ns == at for path, at in times.items())


def test_more_orders_and_recognizers_add_to_a_run(experiment: Experiment, tmp_path: Path, ran: Jobs) -> None:
    run_experiment(replace(experiment, orders=1, recognizers=("NNO",)), tmp_path / "out", workers=0)
    ran.clear()
    run_experiment(replace(experiment, name="renamed"), tmp_path / "out", workers=0)
    assert ran == [job for job in ALL if job != ("blobs", "NNO", 0)]
    run_experiment(experiment, tmp_path / "fresh", workers=0)
    assert (tmp_path / "out/results.csv").read_bytes() == (tmp_path / "fresh/results.csv").read_bytes()


@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_run_continues(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: type[BaseException]
) -> None:
    output, whole = tmp_path / "out", run.run_job
    started: list[int] = []

    def interrupted(job: run.Job, parts: Path) -> None:
        started.append(job.order)
        if len(started) == 3:
            raise stop("power cut")
        whole(job, parts)

    monkeypatch.setattr(run, "run_job", interrupted)
    with pytest.raises(stop):
        run_experiment(experiment, output, workers=0)
    assert len(parts_of(output)) == 2
    assert not (output / "results.csv").exists(), "no table of half a run"
    run_experiment(experiment, output, workers=0)
    assert len(started) == 3 + 2
    monkeypatch.setattr(run, "run_job", whole)
    run_experiment(experiment, tmp_path / "fresh", workers=0)
    assert (output / "results.csv").read_bytes() == (tmp_path / "fresh" / "results.csv").read_bytes()


def test_a_job_that_was_cut_short_is_not_taken_for_done(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: Jobs
) -> None:
    """Whatever file was last being written when the machine stopped, the job is run again."""
    output = tmp_path / "out"
    written: list[Path] = []
    replace_file = os.replace

    def stop_at(n: int) -> Callable[..., None]:
        def stop(source: Path, target: Path) -> None:
            written.append(target)
            if len(written) == n:
                raise OSError("disk full")
            replace_file(source, target)

        return stop

    for n in (1, 2):  # scores, then rows
        written.clear()
        monkeypatch.setattr(os, "replace", stop_at(n))
        with pytest.raises(OSError, match="disk full"):
            run_experiment(experiment, output, workers=0)
        assert parts_of(output) == []
    monkeypatch.setattr(os, "replace", replace_file)
    ran.clear()
    run_experiment(experiment, output, workers=0)
    assert ran == ALL
    assert len(parts_of(output, "npz")) == len(ALL)


@pytest.mark.parametrize(
    "change",
    [{"seed": 1}, {"test_fraction": 0.4}, {"unknown": (2, 3)}, {"n_starting": 2}, {"one_by_one": True}],
)
def test_another_experiment_uses_no_old_parts(
    experiment: Experiment, tmp_path: Path, ran: Jobs, change: dict[str, Any]
) -> None:
    run_experiment(experiment, tmp_path / "out", workers=0)
    ran.clear()
    changed = replace(experiment, **change)
    run_experiment(changed, tmp_path / "out", workers=0)
    assert ran == ALL
    run_experiment(changed, tmp_path / "fresh", workers=0)
    assert (tmp_path / "out/results.csv").read_bytes() == (tmp_path / "fresh/results.csv").read_bytes()
    assert read_facts(tmp_path / "out")["parts"] == read_facts(tmp_path / "fresh")["parts"]


def test_changed_data_use_no_old_parts(experiment: Experiment, tmp_path: Path, ran: Jobs) -> None:
    """Also in one process, where the data of the last run may still be in memory."""
    run_experiment(experiment, tmp_path / "out", workers=0)
    before = (tmp_path / "out" / "results.csv").read_bytes()
    ran.clear()
    save_blobs(Path(experiment.data[0]), seed=1)
    run_experiment(experiment, tmp_path / "out", workers=0)
    assert ran == ALL
    run_experiment(experiment, tmp_path / "fresh", workers=0)
    after = (tmp_path / "out" / "results.csv").read_bytes()
    assert after == (tmp_path / "fresh" / "results.csv").read_bytes() != before


def test_another_version_uses_no_old_parts(
    experiment: Experiment, tmp_path: Path, ran: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_experiment(experiment, tmp_path / "out", workers=0)
    ran.clear()
    monkeypatch.setattr(recognizers, "__version__", "99.0")
    run_experiment(experiment, tmp_path / "out", workers=0)
    assert ran == ALL


def test_data_sets_of_one_name_are_kept_apart(experiment: Experiment, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = str(save_blobs(tmp_path / "other" / "blobs.npz", n_classes=15, seed=3))
    both = replace(experiment, data=(*experiment.data, other))
    run_experiment(both, tmp_path / "both", workers=0)
    found = read_results(tmp_path / "both")
    for data in both.data:
        run_experiment(replace(experiment, data=(data,)), tmp_path / "alone", workers=0)
        assert [row for row in found if row["data"] == data] == read_results(tmp_path / "alone")


def test_the_facts_of_a_run(experiment: Experiment, tmp_path: Path) -> None:
    start = time.perf_counter()
    run_experiment(experiment, tmp_path / "out", workers=0)
    elapsed = time.perf_counter() - start
    facts = read_facts(tmp_path / "out")
    assert experiment_from(facts["experiment"]) == experiment
    assert facts["experiment"]["seed"] == 0
    assert facts["scaled"] == {}
    assert 0 < facts["seconds"] <= elapsed
    assert 20 < facts["peak_mib"] < 100_000
    assert facts["versions"]["openworld"] == __version__
    assert facts["versions"]["numpy"] == np.__version__
    assert {"python", "scipy", "scikit-learn", "matplotlib"} <= facts["versions"].keys()
    names = [name for names in facts["parts"].values() for name in names]
    assert sorted(names) == [
        path.stem if path.suffix == ".json" else "" for path in parts_of(tmp_path / "out")
    ]


def test_the_seconds_of_a_resumed_run_are_those_of_all_jobs(experiment: Experiment, tmp_path: Path) -> None:
    run_experiment(replace(experiment, orders=1), tmp_path / "out", workers=0)
    first = read_facts(tmp_path / "out")["seconds"]
    run_experiment(experiment, tmp_path / "out", workers=0)
    both = read_facts(tmp_path / "out")["seconds"]
    assert both > first > 0
    run_experiment(experiment, tmp_path / "out", workers=0)
    assert read_facts(tmp_path / "out")["seconds"] == both


def test_scaling_down_is_reported(experiment: Experiment, tmp_path: Path) -> None:
    asked = replace(experiment, n_known=60, n_starting=20, step=20, unknown=(20, 40))
    run_experiment(asked, tmp_path / "out", workers=0)
    facts = read_facts(tmp_path / "out")
    assert experiment_from(facts["experiment"]) == asked
    (used,) = facts["scaled"].values()
    assert experiment_from(used) == asked.scaled_to(load_dataset(asked.data[0]))
    assert {row["K"] for row in read_results(tmp_path / "out")} == {2, 4, 6, 7}
    assert {row["U"] for row in read_results(tmp_path / "out")} == {0, 2, 4}


def test_progress(experiment: Experiment, tmp_path: Path) -> None:
    seen: list[tuple[int, int, str]] = []

    def note(done: int, total: int, what: str) -> None:
        seen.append((done, total, what))

    run_experiment(experiment, tmp_path / "out", workers=0, progress=note)
    assert seen[0] == (0, 4, "starting")
    assert [done for done, _, _ in seen] == [0, 1, 2, 3, 4]
    assert seen[-1] == (4, 4, "NNO, order 2")
    seen.clear()
    run_experiment(experiment, tmp_path / "out", workers=0, progress=note)
    assert seen == [(4, 4, "resuming")]


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_says_which_job(experiment: Experiment, tmp_path: Path, workers: int) -> None:
    """A class named unknown can never be known; what was done before is kept."""
    bad = save_blobs(tmp_path / "bad.npz", n_classes=6)
    with np.load(bad) as file:
        X, y = file["X"], file["y"]
    np.savez(bad, X=X, y=np.where(y == "c0", "unknown", y))
    data = (*experiment.data, str(bad)) if workers == 0 else (str(bad),)  # a worker takes long to start
    broken = replace(experiment, data=data, recognizers=("NCM",), orders=1, unknown=())
    with pytest.raises(ValueError) as raised:
        run_experiment(broken, tmp_path / "out", workers=workers)
    assert str(raised.value).startswith(f"NCM, class order 1 of {bad}: The class label 'unknown' is")
    kept = [path.name.split("-")[0] for path in parts_of(tmp_path / "out")]
    assert kept == (["blobs"] if workers == 0 else [])


def test_a_worker_that_dies(experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Dying:
        def __init__(self, *_: Any, **__: Any) -> None: ...

        def __enter__(self) -> Dying:
            return self

        def __exit__(self, *_: object) -> None: ...

        def shutdown(self, **_: Any) -> None: ...

        def submit(self, *_: Any) -> Future[None]:
            future: Future[None] = Future()
            future.set_exception(BrokenProcessPool("terminated abruptly"))
            return future

    monkeypatch.setattr(run, "ProcessPoolExecutor", Dying)
    with pytest.raises(ChildProcessError, match="died, perhaps out of memory"):
        run_experiment(experiment, tmp_path / "out", workers=2)


def test_the_data_are_looked_at_before_anything_is_run(experiment: Experiment, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no built-in data set"):
        run_experiment(replace(experiment, data=("missing.npz",)), tmp_path / "out", workers=0)
    small = str(save_blobs(tmp_path / "small.npz", n_classes=3))
    with pytest.raises(ValueError, match="small: 3 usable classes are too few"):
        run_experiment(replace(experiment, data=(small,)), tmp_path / "out", workers=0)


def test_reading_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no results\.csv.*Create it with openworld evaluate"):
        read_results(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_facts(tmp_path)


def test_a_job_is_named_for_what_it_depends_on(experiment: Experiment) -> None:
    job = run.Job(experiment, "dir/some data.npz", "f00d", "NNO", 1)
    assert job.file_name.startswith("some_data-f00d-NNO-1-")
    names = {
        job.file_name,
        replace(job, data_fingerprint="beef").file_name,
        replace(job, recognizer="NCM").file_name,
        replace(job, order=2).file_name,
        replace(job, experiment=replace(experiment, seed=4)).file_name,
    }
    assert len(names) == 5
    assert asdict(job)["order"] == 1
