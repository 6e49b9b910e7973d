"""What 20 known unknowns change: CLINC150 with all 150 intents known, tested with out-of-scope questions.

    OPENWORLD_DATA=... python -m benchmarks.accuracy.known_unknowns

1,000 of the out-of-scope questions are the test; the known unknowns are drawn from the other 200.
"""

from __future__ import annotations

import csv
from copy import deepcopy

import numpy as np
from numpy.typing import NDArray

from benchmarks.speed.measure import real_data
from openworld import OpenWorldRecognizer
from openworld.features import load_extractor


def main() -> None:
    with real_data("clinc150.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    X = np.asarray(load_extractor("wordllama").transform([row["text"] for row in rows]))
    y = np.array([row["label"] for row in rows])
    is_test = np.array([row["split"] == "test" for row in rows])
    outside = np.random.default_rng(99).permutation(np.flatnonzero(y == "oos"))
    test, spare = outside[:-200], outside[-200:]
    train, known = np.flatnonzero((y != "oos") & ~is_test), np.flatnonzero((y != "oos") & is_test)
    model = OpenWorldRecognizer().fit(X[train], y[train])

    def measure(what: str, learned: NDArray[np.intp]) -> None:
        changed = deepcopy(model)
        if len(learned):
            changed.learn_unknown(X[learned])
        right = np.mean(changed.predict(X[known]) == y[known])
        accepted = np.mean(changed.predict(X[test]) != "unknown")
        print(f"| {what} | {right:.3f} | {accepted:.3f} | {1 - right + accepted:.3f} |", flush=True)

    print("| known unknowns | known named right | out-of-scope accepted | open-world error |")
    print("|---|---|---|---|")
    measure("none", spare[:0])
    for seed in (100, 101, 102):
        measure(f"20, seed {seed}", np.random.default_rng(seed).permutation(spare)[:20])
    measure("200", spare)


if __name__ == "__main__":
    main()
