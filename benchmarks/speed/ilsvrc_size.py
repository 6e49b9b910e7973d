"""Memory of an ILSVRC'10-size run: 1.2 M x 1,000 uint8 features in a memory-mapped file, made here.

python -m benchmarks.speed.ilsvrc_size [FOLDER]
"""

from __future__ import annotations

import resource
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

from openworld import EuclideanMetric, NearestNonOutlier

N_CLASSES, PER_CLASS, D, N_TEST, STARTING = 1_000, 1_200, 1_000, 150_000, 50


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory(dir=folder) as place:
        X = _make(Path(place) / "train.npy", N_CLASSES * PER_CLASS)
        test = _make(Path(place) / "test.npy", N_TEST)
        y = np.repeat(np.arange(N_CLASSES), PER_CLASS)
        start = perf_counter()
        first = STARTING * PER_CLASS
        model = NearestNonOutlier(EuclideanMetric()).fit(X[:first], y[:first])
        model.partial_fit(X[first:], y[first:])
        learned = perf_counter() - start
        answers = model.predict(test)
        recognized = perf_counter() - start - learned
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{len(y):,} x {D} uint8, {N_CLASSES:,} classes: means {learned:.1f} s")
    print(f"{len(answers):,} test samples: {recognized:.1f} s; peak resident memory {peak:.2f} GiB")


def _make(path: Path, n: int) -> np.ndarray:
    random = np.random.default_rng(n)
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(n, D))
    for start in range(0, n, 50_000):
        rows = min(50_000, n - start)
        array[start : start + rows] = random.integers(0, 256, size=(rows, D), dtype=np.uint8)
    array.flush()
    return np.load(path, mmap_mode="r")


if __name__ == "__main__":
    main()
