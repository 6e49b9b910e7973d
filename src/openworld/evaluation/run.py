"""Running an experiment: one job per recognizer and class order, on several processes, resumable."""

from __future__ import annotations

import csv
import io
import json
import multiprocessing
import os
import platform
import resource
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from openworld._version import __version__
from openworld.data.dataset import Dataset
from openworld.evaluation.datasets import load
from openworld.evaluation.experiment import Experiment
from openworld.evaluation.protocol import run_protocol
from openworld.evaluation.recognizers import code_version, make_recognizer
from openworld.files import write_atomic

Progress = Callable[[int, int, str], None]
RESULT_COLUMNS = ("data", "recognizer", "order", "K", "U", "tau_factor", "measure", "value")
TIMING_COLUMNS = ("data", "recognizer", "order", "K", "what", "seconds")
PACKAGES = ("numpy", "scipy", "scikit-learn", "matplotlib")


@dataclass(frozen=True)
class Job:
    """One recognizer on one class order of one data set."""

    experiment: Experiment
    data: str
    data_fingerprint: str
    recognizer: str
    order: int
    label_column: str | None = None

    @property
    def file_name(self) -> str:
        """The name of the files that hold the job's results."""
        data = "".join(c if c.isalnum() else "_" for c in Path(self.data).stem)
        what = f"{data}-{self.data_fingerprint}-{quote(self.recognizer, safe='')}-{self.order}"
        return f"{what}-{self.experiment.digest()}-{code_version(self.recognizer)}"


def run_experiment(
    experiment: Experiment,
    output: Path,
    *,
    label_column: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Run an experiment and write `results.csv`, `timings.csv` and `run.json` into a folder.

    Results of finished jobs are kept in the folder's `parts`; an interrupted run resumes there. The values
    in `results.csv` do not depend on the number of workers: each job has one BLAS thread.

    Parameters
    ----------
    experiment : Experiment
    output : path
        The folder; created if missing.
    label_column : str, optional
        The column with the labels, where the data are tables; by default `label`.
    workers : int, optional
        Number of processes; by default one per core. 0 runs all jobs in this process.
    progress : callable, optional
        Called with (jobs done, number of jobs, name of the last job).
    """
    parts = output / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    _dataset.cache_clear()  # the files may have changed since the last run
    scaled = {name: experiment.scaled_to(_dataset(name, label_column)) for name in experiment.data}
    fingerprints = {name: _dataset(name, label_column).fingerprint() for name in experiment.data}
    jobs = [
        Job(scaled[data], data, fingerprints[data], recognizer, order, label_column)
        for data in experiment.data
        for order in range(experiment.orders)
        for recognizer in experiment.recognizers
    ]
    todo = [job for job in jobs if not (parts / f"{job.file_name}.json").is_file()]
    done = len(jobs) - len(todo)
    if progress is not None:
        progress(done, len(jobs), "resuming" if done else "starting")
    for job in _finished(todo, parts, os.cpu_count() or 1 if workers is None else workers):
        done += 1
        if progress is not None:
            progress(done, len(jobs), f"{job.recognizer}, order {job.order + 1}")
    _write_tables(jobs, output, parts)
    _write_facts(experiment, scaled, jobs, output, parts)


def read_results(output: Path) -> list[dict[str, Any]]:
    """Read the table of a run, numbers as numbers."""
    path = output / "results.csv"
    if not path.is_file():
        raise FileNotFoundError(
            f"{output}: there is no results.csv in this folder. Create it with openworld evaluate."
        )
    kinds: dict[str, Callable[[str], Any]] = {
        "order": int, "K": int, "U": int, "tau_factor": float, "value": float
    }  # fmt: skip
    with path.open(newline="", encoding="utf-8") as file:
        return [{k: kinds.get(k, str)(v) for k, v in row.items()} for row in csv.DictReader(file)]


def read_facts(output: Path) -> dict[str, Any]:
    """Read the metadata of a run: experiment, versions, seconds of all jobs together, memory."""
    return dict(json.loads((output / "run.json").read_text(encoding="utf-8")))


def read_scores(output: Path, data: str, recognizer: str) -> list[dict[str, NDArray[Any]]]:
    """Read the last stage's scores of a recognizer, for each class order.

    Do not pool them: each class order has its own metric, and so its own scale.
    """
    found = []
    for name in read_facts(output)["parts"][f"{data}/{recognizer}"]:
        with np.load(output / "parts" / f"{name}.npz", allow_pickle=False) as scores:
            found.append({key: scores[key] for key in scores.files})
    return found


def run_job(job: Job, parts: Path) -> None:
    """Run one job and write its results: scores first, then the rows, which mark it as done."""
    start = perf_counter()
    with threadpool_limits(1):
        dataset = _dataset(job.data, job.label_column)
        outcome = run_protocol(
            make_recognizer(job.recognizer),
            dataset,
            job.experiment.split(dataset, job.order),
            job.experiment,
        )
    scores = io.BytesIO()
    np.savez_compressed(scores, **outcome.scores)  # type: ignore[arg-type]
    write_atomic(parts / f"{job.file_name}.npz", scores.getvalue())
    document = {"rows": outcome.rows, "timings": outcome.timings, "peak_mib": _peak_mib()}
    document["seconds"] = perf_counter() - start
    write_atomic(parts / f"{job.file_name}.json", json.dumps(document).encode())


@lru_cache(maxsize=4)
def _dataset(name: str, label_column: str | None) -> Dataset:
    return load(name, label_column)


def _finished(jobs: list[Job], parts: Path, workers: int) -> Iterator[Job]:
    """Run the jobs and yield each when it is done."""
    if workers == 0 or not jobs:
        for job in jobs:
            with _job_in_errors(job):
                run_job(job, parts)
            yield job
        return
    # One process per job, so that the reported memory is the job's own.
    executor: Executor
    with ProcessPoolExecutor(
        min(workers, len(jobs)), multiprocessing.get_context("spawn"), max_tasks_per_child=1
    ) as executor:
        futures: dict[Future[None], Job] = {executor.submit(run_job, job, parts): job for job in jobs}
        try:
            for future in as_completed(futures):
                with _job_in_errors(futures[future]):
                    future.result()
                yield futures[future]
        except BaseException:
            executor.shutdown(wait=True, cancel_futures=True)
            raise


@contextmanager
def _job_in_errors(job: Job) -> Iterator[None]:
    """Name the failed job in errors caused by the data or the experiment."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{job.recognizer}, class order {job.order + 1} of {job.data}: {error}") from error
    except BrokenProcessPool as error:
        raise ChildProcessError(
            "A worker process died, perhaps out of memory. Run again with fewer workers; finished jobs stay."
        ) from error


def _write_tables(jobs: list[Job], output: Path, parts: Path) -> None:
    results, timings = [], []
    for job in jobs:
        who = {"data": job.data, "recognizer": job.recognizer, "order": job.order}
        outcome = _outcome(job, parts)
        results += [{**who, **row} for row in outcome["rows"]]
        timings += [{**who, **row} for row in outcome["timings"]]
    _write_csv(output / "results.csv", RESULT_COLUMNS, results)
    _write_csv(output / "timings.csv", TIMING_COLUMNS, timings)


def _write_facts(
    experiment: Experiment,
    scaled: dict[str, Experiment],
    jobs: list[Job],
    output: Path,
    parts: Path,
) -> None:
    files: dict[str, list[str]] = {}
    outcomes = [_outcome(job, parts) for job in jobs]
    for job in jobs:
        files.setdefault(f"{job.data}/{job.recognizer}", []).append(job.file_name)
    facts = {
        "experiment": asdict(experiment),
        "scaled": {name: asdict(used) for name, used in scaled.items() if used != experiment},
        "versions": {
            "python": platform.python_version(),
            "openworld": __version__,
            **{name: version(name) for name in PACKAGES},
        },
        "seconds": sum(outcome.get("seconds", 0.0) for outcome in outcomes),  # also of jobs of earlier runs
        "peak_mib": max(outcome["peak_mib"] for outcome in outcomes),
        "parts": files,
    }
    write_atomic(output / "run.json", json.dumps(facts, indent=1).encode())


def _outcome(job: Job, parts: Path) -> dict[str, Any]:
    return dict(json.loads((parts / f"{job.file_name}.json").read_text(encoding="utf-8")))


def _write_csv(path: Path, columns: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    text = io.StringIO()
    table = csv.DictWriter(text, fieldnames=columns, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    write_atomic(path, text.getvalue().encode())


def _peak_mib() -> float:
    """Return the peak resident memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
