"""Comparison of two runs: differences paired over class orders, and which are significant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from openworld.evaluation.measures import Interval
from openworld.evaluation.run import read_results
from openworld.evaluation.table import Table, difference, is_significant

COMPARED = ("pooled_accuracy", "open_world_error", "auroc", "oscr_area")


@dataclass(frozen=True)
class Difference:
    """The second run minus the first in one cell, as mean and interval over class orders."""

    data: str
    recognizer: str
    K: int
    U: int
    measure: str
    first: float
    second: float
    interval: Interval | None

    @property
    def significant(self) -> bool:
        """Whether the interval excludes zero; False with a single class order, which has no interval."""
        return self.interval is not None and is_significant(self.interval)


def compare(first: Path, second: Path, measures: tuple[str, ...] = COMPARED) -> list[Difference]:
    """Compare the cells that both runs have.

    Raises
    ------
    ValueError
        If there are none, or the runs have different numbers of class orders and cannot be paired.
    """
    a, b = Table.of(read_results(first)), Table.of(read_results(second))
    shared = [key for key in a.values if key in b.values and key[5] in measures and key[4] == 1.0]
    if not shared:
        raise ValueError(f"{first} and {second} have no data set, recognizer, K, U and measure in common.")
    found = []
    for key in shared:
        if len(a.values[key]) != len(b.values[key]):
            raise ValueError(
                f"{first} has {len(a.values[key])} class orders and {second} has {len(b.values[key])}: "
                "paired differences need the same."
            )
        interval = difference(b.values[key], a.values[key]) if len(a.values[key]) > 1 else None
        data, recognizer, K, U, _, measure = key
        means = float(a.values[key].mean()), float(b.values[key].mean())
        found.append(Difference(data, recognizer, K, U, measure, *means, interval))
    return found
