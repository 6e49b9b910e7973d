"""A model grown from nothing, class by class, against one fitted on the same samples at once.

    OPENWORLD_DATA=... python -m benchmarks.accuracy.cold_start

Classes come one at a time with 5 to 25 samples each; a third of the classes is never named. `named` is the
share of known test samples that get their name, `rejected` the share of unknown ones that are rejected, OSCR
the area under both over all thresholds.
"""

from __future__ import annotations

import csv
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from openworld import OpenWorldRecognizer
from openworld.features.extractor import load_extractor
from openworld.recognition import ColdStartRecognizer
from openworld.recognition.adaptive.scored import oscr_area

DATA = Path(os.environ.get("OPENWORLD_DATA", "data"))
SEED, MEASURED = 0, (2, 3, 5, 10, 20, 40)


def pictures(name: str) -> tuple[Any, ...]:
    """Return the features of a data set of pictures: train X, y, test X, y."""
    data = np.load(DATA / f"{name}.npz")
    names = data["class_names"]
    return (
        data["X_train"].astype(np.float32),
        names[data["y_train"]],
        data["X_test"].astype(np.float32),
        names[data["y_test"]],
    )


def sentences() -> tuple[Any, ...]:
    """Return every second intent of CLINC150 as features of wordllama."""
    with open(DATA / "clinc150.csv", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["split"] in ("train", "test")]
    chosen = sorted({row["label"] for row in rows} - {"oos"})[::2]
    rows = [row for row in rows if row["label"] in chosen]
    X = load_extractor("wordllama").transform([row["text"] for row in rows])
    y, train = np.array([row["label"] for row in rows]), np.array([row["split"] == "train" for row in rows])
    return X[train], y[train], X[~train], y[~train]


def score(model: Any, X: Any, y: Any, known: Any) -> str:
    """Return the measures of a model."""
    judged, is_known = model.judge(X, 1), np.isin(y, known)
    named = np.mean(judged.labels[is_known] == y[is_known])
    rejected = np.mean(~judged.accepted[~is_known])
    right = judged.nearest[is_known, 0] == y[is_known]
    area = oscr_area(judged.decision[is_known], right, judged.decision[~is_known])
    return f"named {named:.3f}, rejected {rejected:.3f}, OSCR {area:.3f}"


def compare(name: str, X: Any, y: Any, X_test: Any, y_test: Any) -> None:
    """Print both models at some numbers of classes."""
    random = np.random.default_rng(SEED)
    order = random.permutation(np.unique(y))
    rows = [
        np.flatnonzero(y == label)[:n]
        for label, n in zip(order, random.integers(5, 26, len(order)), strict=True)
    ]
    never = order[-(len(order) // 3) :]
    grown = ColdStartRecognizer().start(X.shape[1])
    for n_classes in range(1, MEASURED[-1] + 1):
        new = rows[n_classes - 1]
        grown.partial_fit(X[new], y[new]).refresh()
        if n_classes in MEASURED:
            known, learned = order[:n_classes], np.concatenate(rows[:n_classes])
            asked = np.isin(y_test, known) | np.isin(y_test, never)
            for kind, model in (
                ("grown", grown),
                ("at once", OpenWorldRecognizer().fit(X[learned], y[learned])),
            ):
                print(
                    f"{name} {n_classes:3} {kind:8} {score(model, X_test[asked], y_test[asked], known)}",
                    flush=True,
                )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    compare("CLINC150", *sentences())
    for name in ("cifar100-enl0", "cub200-enl0"):
        compare(name, *pictures(name))
