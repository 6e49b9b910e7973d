"""What calibration promises against what is measured: OSCR area and open-world error.

    python -m benchmarks.accuracy.promised letters benchmarks/accuracy/features/clinc150.npz ...

Class orders of seeds 21 to 23, which chose no setting. Half of the classes are known and the rest
unknown, at most 60 and 40. With `--shuffled` the test samples are drawn at random, and not the test part that
the data set comes with: a promise is about samples like those that were learned.
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

SEEDS = (21, 22, 23)


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
    names = [name for name in sys.argv[1:] if name != "--shuffled"]
    print("| data | OSCR promised | measured | error promised | measured |")
    print("|---|---|---|---|---|")
    for name in names:
        dataset = load(name)
        if "--shuffled" in sys.argv:
            dataset = replace(dataset, is_test=None)
        cells = np.mean([compare(dataset, seed) for seed in SEEDS], axis=0)
        print(f"| {Path(name).stem} | " + " | ".join(f"{value:.3f}" for value in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
