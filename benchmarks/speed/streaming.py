"""Streams beside merely reading the same file: speed and resident memory, each in a process of its own.

`python -m benchmarks.speed.streaming 1000000` makes 1,000,000 x 256 float32 in a temporary folder.
With --cold the file is taken out of the page cache before each action: the case of data larger than memory.
Beside the seconds on the clock stand those of the processor, which other work on the machine changes less.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

D, CLASSES, BLOCK = 256, 1_000, 65_536
KINDS = ("npy", "parquet", "arrow")


def make(folder: Path, n_samples: int, kinds: list[str]) -> None:
    """Write the same samples in every kind of file, a block at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(0)
    centers = random.standard_normal((CLASSES, D), dtype=np.float32)
    schema = pa.schema({"features": pa.list_(pa.float32(), D), "label": pa.int64()})
    X = y = None
    if "npy" in kinds:
        X = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (n_samples, D))
        y = np.lib.format.open_memmap(folder / "x.labels.npy", "w+", np.int64, (n_samples,))
    options = {"compression": "none", "use_dictionary": False}
    parquet = pq.ParquetWriter(folder / "x.parquet", schema, **options) if "parquet" in kinds else None
    arrow = pa.ipc.new_file(str(folder / "x.arrow"), schema) if "arrow" in kinds else None
    for start in range(0, n_samples, BLOCK):
        labels = random.integers(0, CLASSES, min(BLOCK, n_samples - start))
        samples = centers[labels] + random.standard_normal((len(labels), D), dtype=np.float32)
        if X is not None and y is not None:
            X[start : start + BLOCK], y[start : start + BLOCK] = samples, labels
        lists = pa.FixedSizeListArray.from_arrays(pa.array(samples.ravel()), D)
        table = pa.table({"features": lists, "label": labels}, schema)
        for writer in (parquet, arrow):
            if writer is not None:
                writer.write_table(table)
    for writer in (parquet, arrow):
        if writer is not None:
            writer.close()


def merely_read(path: str) -> None:
    """Read all bytes as numpy or pyarrow do, some thousand samples at a time, and drop them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.endswith(".npy"):
        with open(path, "rb") as file:
            file.seek(128)
            while len(np.fromfile(file, np.float32, 8192 * D)):
                pass
    elif path.endswith(".parquet"):
        for _ in pq.ParquetFile(path).iter_batches(8192):
            pass
    else:
        with pa.OSFile(path) as file:  # a mapped file is not read until it is looked at
            reader = pa.ipc.open_file(file)
            for i in range(reader.num_record_batches):
                reader.get_batch(i)


def stream(path: str) -> None:
    from openworld.data.streams import open_stream

    for _ in open_stream(path).batches():
        pass


def learn_means(path: str) -> None:
    """`learn` with a frozen metric: counts and sums."""
    from openworld import EuclideanMetric, NearestNonOutlier
    from openworld.data.streams import open_stream
    from openworld.distributed import learn

    X = np.random.default_rng(1).standard_normal((200, D), dtype=np.float32)
    learn(
        NearestNonOutlier(EuclideanMetric(), tau=20.0).fit(X, np.arange(200) % 2 + CLASSES), open_stream(path)
    )


def fit_open_world(path: str) -> None:
    """`fit` of the default recognizer without a lift: labels, sample and all sums; three passes."""
    from openworld import OpenWorldRecognizer, save
    from openworld.data.streams import open_stream
    from openworld.distributed import fit

    model = fit(OpenWorldRecognizer(n_lifted=0), open_stream(path)).model
    save(model, Path(path).with_suffix(".ow"))


def fit_default(path: str) -> None:
    """`fit` of the default recognizer: a lift of 2,000 is tried on the sample, and taken if it is better."""
    from openworld import OpenWorldRecognizer
    from openworld.data.streams import open_stream
    from openworld.distributed import fit

    fit(OpenWorldRecognizer(), open_stream(path))


def recognize(path: str) -> None:
    from openworld import load
    from openworld.data.streams import open_stream
    from openworld.distributed import recognize

    for _ in recognize(load(Path(path).with_suffix(".ow")), open_stream(path)):
        pass


ACTIONS = (merely_read, stream, learn_means, fit_open_world, recognize, fit_default)


def forget(path: str) -> None:
    """Take a file out of the page cache."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())  # what is not on disk yet would stay
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measured(action: Callable[[str], None], path: str, cold: bool) -> tuple[float, float, float]:
    """Return seconds, seconds of the processor and the peak of resident MiB of a new process."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_measure, (action, path, cold))


def _measure(action: Callable[[str], None], path: str, cold: bool) -> tuple[float, float, float]:
    import openworld.distributed  # noqa: F401 -- not timed

    if cold:
        forget(path)
    start, of_processor = perf_counter(), process_time()
    action(path)
    seconds, of_processor = perf_counter() - start, process_time() - of_processor
    status = Path("/proc/self/status").read_text()  # ru_maxrss would tell of the parent process too
    return seconds, of_processor, int(status.split("VmHWM:")[1].split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n_samples", type=int, nargs="?", default=200_000)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--repeats", type=int, default=2)
    names = [action.__name__ for action in ACTIONS]
    parser.add_argument(
        "--actions", nargs="+", choices=names, default=names[:-1], help="default: all but fit_default"
    )
    parser.add_argument("--cold", action="store_true", help="read from disk, not from the page cache")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), options.n_samples, options.kinds)
        size = options.n_samples * D * 4 / 2**30
        load = os.getloadavg()[0]
        print(f"{options.n_samples:,} x {D} float32, {size:.2f} GiB, {CLASSES} classes; load {load:.1f}")
        for kind in options.kinds:
            path = str(Path(folder) / f"x.{kind}")
            merely_read(path)  # so that no action is the one that fetches it from disk, but with --cold
            actions = [action for action in ACTIONS if action.__name__ in ("merely_read", *options.actions)]
            # In turn, so that a slow moment of the machine hits all of them.
            runs = [
                [measured(action, path, options.cold) for action in actions] for _ in range(options.repeats)
            ]
            reading = min(run[0][0] for run in runs)
            for action, of_one in zip(actions, zip(*runs, strict=True), strict=True):
                seconds, of_processor, _ = map(min, zip(*of_one, strict=True))
                memory = max(memory for _, _, memory in of_one)
                print(
                    f"{kind:8} {action.__name__:15} {seconds:7.2f} s ({of_processor:7.2f} of the processor) "
                    f"{size / seconds:6.2f} GiB/s, {reading / seconds:5.2f} of the speed of reading, "
                    f"{memory:5.0f} MiB resident",
                    flush=True,
                )


if __name__ == "__main__":
    main()
