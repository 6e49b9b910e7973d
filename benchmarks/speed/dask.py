"""Fitting over a Dask cluster of 1 and of 2 worker processes, beside the same work by 1 and 2 threads."""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
from pathlib import Path

from benchmarks.speed.measure import best_times
from benchmarks.speed.streaming import CLASSES, D, make


def main() -> None:
    import distributed
    from openworld import OpenWorldRecognizer
    from openworld.data.streams import open_stream
    from openworld.distributed import class_statistics, fit
    from openworld.distributed.cluster import DaskEngine, local_cluster
    from openworld.distributed.engine import Engine, LocalEngine

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n_samples", type=int, nargs="?", default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()

    def timed(engine: Engine) -> list[float]:
        """Return the shortest times of statistics and fit."""
        return best_times(
            [
                lambda: class_statistics(stream, engine),
                lambda: fit(OpenWorldRecognizer(n_lifted=0), stream, engine),
            ],
            options.repeats,
        )

    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), options.n_samples, ["parquet"])
        stream = open_stream(Path(folder) / "x.parquet")
        print(
            f"{options.n_samples:,} x {D}, {CLASSES} classes, {len(stream.parts)} parts of a Parquet file; "
            f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
        )
        alone = timed(LocalEngine(1))
        print(f"one thread without Dask: statistics {alone[0]:.2f} s, fit {alone[1]:.2f} s")
        threads = timed(LocalEngine(2))
        print(f"two threads without Dask: statistics {threads[0]:.2f} s, fit {threads[1]:.2f} s")
        for n_workers in (1, 2):
            with (
                local_cluster(n_workers, silence_logs=logging.CRITICAL) as cluster,
                distributed.Client(cluster, direct_to_workers=True, set_as_default=False) as client,
            ):
                client.wait_for_workers(n_workers)
                client.run(_warm_up)
                seconds = timed(DaskEngine(client))
            print(
                f"{n_workers} worker{'s' * (n_workers > 1)}: statistics {seconds[0]:.2f} s "
                f"({alone[0] / seconds[0]:.2f} times the speed of one thread), fit {seconds[1]:.2f} s "
                f"({alone[1] / seconds[1]:.2f} times)"
            )


def _warm_up() -> None:
    import openworld.distributed  # noqa: F401


if __name__ == "__main__":
    main()
