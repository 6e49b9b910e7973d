"""`openworld evaluate few-shot`: new classes of 1 to 20 samples beside base classes of all their samples."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.data.dataset import Dataset
from openworld.evaluation.measures import Scores, ccr_at_fpr, oscr_area
from openworld.evaluation.recognizers import RECOGNIZERS, check_names, make_recognizer
from openworld.evaluation.split import Split, make_split, require_classes, usable_classes

Row = dict[str, Any]

COLUMNS = ("data", "order", "base", "new", "unknown", "recognizer", "n", "measure", "value")
AT_FIXED = "at fixed rejection"
ALL = "all"
MEASURES = (
    "new right",
    "new rejected",
    "new taken for another",
    f"new right {AT_FIXED}",
    "new OSCR",
    "base right",
    f"base right {AT_FIXED}",
    "base OSCR",
    "unknown rejected",
)


@dataclass(frozen=True)
class FewShotExperiment:
    """Base classes learned from all their samples, then new classes from a few, and from all.

    Attributes
    ----------
    data : tuple of str
    recognizers : tuple of str
        Names from `openworld.evaluation.recognizers`, or your own as `package.module:Class`.
    orders, seed : int
        Class orders, and what determines them.
    n_base, n_new, n_unknown : int
        Numbers of classes, scaled down in proportion where the data set has fewer.
    samples : tuple of int
        Numbers of samples that each new class is learned from. A class with fewer training samples gives all
        it has; a number that no new class has is left out.
    rejection : float
        The share of unknown samples rejected at which recognizers are compared, whatever their threshold.
    """

    data: tuple[str, ...] = ("letters",)
    recognizers: tuple[str, ...] = tuple(RECOGNIZERS)
    orders: int = 3
    seed: int = 0
    n_base: int = 40
    n_new: int = 10
    n_unknown: int = 40
    samples: tuple[int, ...] = (1, 2, 5, 10, 20)
    rejection: float = 0.85

    def __post_init__(self) -> None:
        check_names(self.recognizers)

    def scaled_to(self, dataset: Dataset) -> FewShotExperiment:
        """Return the experiment with its numbers of classes scaled down to what the data set has."""
        available = usable_classes(dataset, seed=self.seed, orders=self.orders, test_fraction=0.3)
        factor = available / (self.n_base + self.n_new + self.n_unknown)
        if factor >= 1:
            return self
        require_classes(dataset, available)
        return replace(
            self,
            n_base=max(2, int(self.n_base * factor)),
            n_new=max(1, int(self.n_new * factor)),
            n_unknown=max(1, int(self.n_unknown * factor)),
        )


def measure_order(experiment: FewShotExperiment, dataset: Dataset, order: int) -> Iterator[Row]:
    """Yield the measures of every recognizer in one class order.

    n = 0 is before the new classes. With "all" they are learned from all samples that they have, which shows
    how far more samples could help.
    """
    scaled = experiment.scaled_to(dataset)
    split = make_split(
        dataset,
        seed=scaled.seed,
        order=order,
        n_starting=scaled.n_base,
        step=scaled.n_new,
        n_known=scaled.n_base + scaled.n_new,
        n_unknown=scaled.n_unknown,
    )
    base = split.train[np.isin(dataset.y[split.train], split.stages[0])]
    shots = {0: base[:0], **dict(_shots(scaled, dataset, split, order))}
    for name in scaled.recognizers:
        model = make_recognizer(name).fit(dataset.X[base], dataset.y[base])
        who = {
            "data": dataset.name, "order": order, "base": scaled.n_base, "new": scaled.n_new,
            "unknown": scaled.n_unknown, "recognizer": name,
        }  # fmt: skip
        for n, chosen in shots.items():
            grown = deepcopy(model)
            if n:
                grown.partial_fit(dataset.X[chosen], dataset.y[chosen])
            for measure, value in measures(grown, dataset, split, scaled.rejection).items():
                yield {**who, "n": n, "measure": measure, "value": value}


def _shots(
    experiment: FewShotExperiment, dataset: Dataset, split: Split, order: int
) -> Iterator[tuple[int | str, NDArray[np.intp]]]:
    """Yield each number of samples with those that the new classes are learned from; more contain fewer."""
    random = np.random.default_rng([experiment.seed, order])
    shuffled = [random.permutation(split.train[dataset.y[split.train] == label]) for label in split.stages[1]]
    for n in experiment.samples:
        if n <= max(map(len, shuffled)):
            yield n, np.concatenate([samples[:n] for samples in shuffled])
    yield ALL, np.concatenate(shuffled)


def measures(model: Any, dataset: Dataset, split: Split, rejection: float) -> dict[str, float]:
    """Test a model that knows the base classes, or the base and the new ones.

    At fixed rejection, the threshold is the one that rejects that share of the unknown test samples, so a
    recognizer gains nothing by rejecting less.
    """
    X, truth = dataset.X[split.test], dataset.y[split.test]
    decision = model.decision_function(X)
    best, nearest = decision.max(axis=1), model.classes_[decision.argmax(axis=1)]
    answer = model.predict(X)
    rejected, right = answer == model.unknown_label_, answer == truth
    unknown = np.isin(truth, split.unknown)
    values = {"unknown rejected": float(rejected[unknown].mean())}
    for name, classes in zip(("base", "new"), split.stages, strict=True):
        if not np.isin(classes, model.classes_).all():
            continue
        of_part = np.isin(truth, classes)
        scores = Scores.of(best[of_part], best[unknown], nearest[of_part] == truth[of_part])
        values |= {
            f"{name} right": float(right[of_part].mean()),
            f"{name} rejected": float(rejected[of_part].mean()),
            f"{name} taken for another": float((~right & ~rejected)[of_part].mean()),
            f"{name} right {AT_FIXED}": ccr_at_fpr(scores, 1 - rejection),
            f"{name} OSCR": oscr_area(scores),
        }
    return {measure: values[measure] for measure in MEASURES if measure in values}
