"""What fitting OpenWorldRecognizer costs: processor seconds on one thread, against named baselines.

    OMP_NUM_THREADS=1 OPENWORLD_DATA=... python -m benchmarks.speed.fit_cost [digits clinc150 cifar100 many]

Run it with PYTHONPATH set to the sources of another commit to compare with that commit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from benchmarks.speed.measure import real_data
from openworld import OpenWorldRecognizer

Data = tuple[NDArray[Any], NDArray[Any]]


def digits() -> Data:
    """1,000 digits."""
    X, y = load_digits(return_X_y=True)
    return X[:1000], y[:1000]


def clinc150() -> Data:
    """The training questions of CLINC150 as word vectors."""
    import csv

    from openworld.features import load_extractor

    with real_data("clinc150.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["label"] != "oos" and row["split"] != "test"]
    texts = [row["text"] for row in rows]
    return np.asarray(load_extractor("wordllama").transform(texts)), np.array([row["label"] for row in rows])


def cifar100() -> Data:
    """CIFAR-100 as deep features."""
    data = np.load(real_data("cifar100-enl0.npz"))
    return data["X_train"].astype(np.float32), data["y_train"]


def many() -> Data:
    """1,000,000 samples of 100 classes with 64 features."""
    random = np.random.default_rng(0)
    y = random.integers(100, size=1_000_000)
    centers = 2 * random.standard_normal((100, 64), dtype=np.float32)
    return centers[y] + random.standard_normal((len(y), 64), dtype=np.float32), y


def lda() -> Any:
    return LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto")


SETS: dict[str, tuple[Callable[[], Data], str, Callable[[], Any]]] = {
    "digits": (digits, "shrinkage LDA", lda),
    "clinc150": (clinc150, "shrinkage LDA", lda),
    "cifar100": (cifar100, "shrinkage LDA", lda),
    "many": (many, "n_lifted=0", lambda: OpenWorldRecognizer(n_lifted=0)),
}


def seconds(recognizer: Any, X: NDArray[Any], y: NDArray[Any]) -> float:
    """Return the processor seconds of fitting and of the first prediction."""
    start = process_time()
    recognizer.fit(X, y).predict(X[:10])
    return process_time() - start


def main() -> None:
    OpenWorldRecognizer().fit(*digits())  # imports and first calls
    for name in sys.argv[1:] or SETS:
        make, baseline, other = SETS[name]
        X, y = make()
        ours, theirs = seconds(OpenWorldRecognizer(), X, y), seconds(other(), X, y)
        print(f"{name} {X.shape}: {ours:.2f} s; {baseline} {theirs:.2f} s: {ours / theirs:.2f}", flush=True)


if __name__ == "__main__":
    main()
