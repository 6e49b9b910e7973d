"""`fit` on a Dask cluster of 1 and of 2 worker processes: where the time goes.

    python -m benchmarks.speed.dask 4000000                  # the default recognizer
    python -m benchmarks.speed.dask 500000 --lifted 2000     # with a lift: nearly all is computation

The samples are a Parquet file in a temporary folder. A worker is pinned to one core, as a worker with one
thread has on a cluster; without --pin its read-ahead thread uses the other core too, if that is idle.
Beside the seconds on the clock stand those of the processor, which other work on the machine changes less.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from benchmarks.speed.streaming import CLASSES, D, make


def steps(recognizer: Any, stream: Any, engine: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the steps of `openworld.distributed.fit` of a stream that does not fit in memory."""
    from openworld.distributed import learn
    from openworld.distributed.sampling import class_counts, draw

    state: dict[str, Any] = {}

    def count() -> None:
        state["counts"] = class_counts(stream, engine)

    def sample() -> None:
        state["sample"] = draw(stream, engine, state["counts"])

    def choose() -> None:
        state["start"] = recognizer.fit(state["sample"].X, state["sample"].y).without_classes()

    def sum_up() -> None:
        state["model"] = learn(state["start"], stream, engine).model

    yield "count the labels", count
    yield "draw the sample", sample
    yield "choose the representation (client)", choose
    yield "statistics of all parts, and their sum", sum_up
    yield "metric and calibration (client)", lambda: state["model"].refresh()


def measured(n_workers: int, recognizer: Any, stream: Any, *, pin: bool) -> dict[str, list[float]]:
    """Return, for each step, the seconds on the clock, of the client, and of each worker."""
    import distributed
    from openworld.distributed.cluster import DaskEngine, local_cluster

    with (
        local_cluster(n_workers, silence_logs=logging.CRITICAL) as cluster,
        distributed.Client(cluster, direct_to_workers=True, set_as_default=False) as client,
    ):
        client.wait_for_workers(n_workers)
        for core, worker in enumerate(sorted(client.nthreads())):
            client.run(_warm_up, core if pin else None, workers=[worker])

        def now() -> list[float]:
            of_workers = client.run(process_time)
            return [perf_counter(), process_time(), *(of_workers[name] for name in sorted(of_workers))]

        found = {}
        for name, step in steps(recognizer, stream, DaskEngine(client)):
            before = now()
            step()
            found[name] = [after - first for first, after in zip(before, now(), strict=True)]
        return found


def _warm_up(core: int | None) -> None:
    import openworld.distributed  # noqa: F401

    if core is not None:
        os.sched_setaffinity(0, {core})


def main() -> None:
    from openworld import AdaptiveMetric, OpenWorldRecognizer
    from openworld.data.streams import open_stream

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n_samples", type=int, nargs="?", default=500_000)
    parser.add_argument("--lifted", type=int, default=0, help="rows of a lift that is not chosen but given")
    parser.add_argument("--pin", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    metric = AdaptiveMetric(standardize=True, n_lifted=options.lifted) if options.lifted else None

    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), options.n_samples, ["parquet"])
        stream = open_stream(Path(folder) / "x.parquet")
        print(
            f"{options.n_samples:,} x {D}, {CLASSES} classes, {len(stream.parts)} parts of a Parquet file; "
            f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        one, two = (
            measured(n_workers, OpenWorldRecognizer(metric=metric), stream, pin=options.pin)
            for n_workers in (1, 2)
        )
    for found in (one, two):
        found["together"] = [sum(column) for column in zip(*found.values(), strict=True)]
    print("| seconds | 1 worker: clock | client | worker | 2 workers: clock | client | workers |")
    print("|---|---|---|---|---|---|---|")
    for name in one:
        cells = [f"{seconds:.1f}" for seconds in (*one[name], *two[name])]
        print(f"| {name} | {' | '.join(cells[:-1])} and {cells[-1]} |")
    print(f"2 workers are {one['together'][0] / two['together'][0]:.2f} times as fast as 1 by the clock.")


if __name__ == "__main__":
    main()
