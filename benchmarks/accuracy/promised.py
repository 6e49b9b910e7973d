"""What calibration promises against what is measured: OSCR area and open-world error.

    python -m benchmarks.accuracy.promised letters benchmarks/accuracy/features/clinc150.npz ...

Class orders of seeds 21 to 30, which chose no setting. Half of the classes are known and the rest
unknown, at most 60 and 40. A promise is about samples like those that were learned: with `--shuffled` the
test samples are not the test part that the data set comes with. Where it has groups, such as typefaces, the
test samples are still of other groups than the training samples, unless `--ungrouped` draws them at random.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

from openworld import OpenWorldRecognizer
from openworld.evaluation.datasets import Dataset, load
from openworld.evaluation.measures import Decisions, Scores, open_world_error, oscr_area
from openworld.evaluation.split import make_split

SEEDS = range(21, 31)


def compare(dataset: Dataset, seed: int) -> tuple[float, float, float, float]:
    """Return the OSCR area promised and measured, and the error promised and measured."""
    n_classes = len(np.unique(dataset.y))
    n_known, n_unknown = min(n_classes // 2, 60), min(n_classes // 2, 40)
    sizes = {"n_starting": n_known, "step": 1, "n_known": n_known, "n_unknown": n_unknown}
    split = make_split(dataset, seed=seed, order=0, **sizes)
    known, unknown = split.known(0), split.unknown
    chosen = split.train[np.isin(dataset.y[split.train], known)]
    model = OpenWorldRecognizer().fit(dataset.X[chosen], dataset.y[chosen])
    tested = split.test[np.isin(dataset.y[split.test], [*known, *unknown])]
    X, y = dataset.X[tested], dataset.y[tested]
    decision, is_known = model.decision_function(X), np.isin(y, known)
    best, correct = decision.max(axis=1), model.classes_[decision.argmax(axis=1)] == y
    area = oscr_area(Scores.of(best[is_known], best[~is_known], correct[is_known]))
    decisions = Decisions.of(y, model.predict(X), model.classes_, model.unknown_label_)
    promised = model.calibration_
    return promised.quality, area, promised.error, open_world_error(decisions)


def main() -> None:
    warnings.simplefilter("ignore", UserWarning)
    options = {"--shuffled": {"is_test": None}, "--ungrouped": {"is_test": None, "groups": None}}
    print("| data | OSCR promised | measured | error promised | measured | difference |")
    print("|---|---|---|---|---|---|")
    for name in sys.argv[1:]:
        if name in options:
            continue
        dataset = load(name)
        for option in options.keys() & set(sys.argv):
            dataset = replace(dataset, **options[option])
        found = np.array([compare(dataset, seed) for seed in SEEDS])
        differences = found[:, 2] - found[:, 3]
        cells = [f"{value:.3f}" for value in found.mean(axis=0)]
        spread = differences.std(ddof=1) / np.sqrt(len(SEEDS))
        cells.append(f"{differences.mean():+.3f} +- {spread:.3f}")
        print(f"| {Path(name).stem} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
