"""The results table of a run: cells over class orders, paired differences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.evaluation.measures import Interval, fold_interval

Row = dict[str, Any]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """Values by data set, recognizer, K, U, tau factor and measure: one for each class order.

    Make it with `Table.of(rows)` from the rows of `results.csv`.
    """

    values: dict[tuple[str, str, int, int, float, str], Floats]

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Table:
        """Collect rows; the values of a cell are sorted by class order."""
        cells: dict[tuple[str, str, int, int, float, str], dict[int, float]] = defaultdict(dict)
        for row in rows:
            key = (row["data"], row["recognizer"], row["K"], row["U"], row["tau_factor"], row["measure"])
            cells[key][row["order"]] = row["value"]
        return cls({key: np.array([cell[order] for order in sorted(cell)]) for key, cell in cells.items()})

    def _axis(self, position: int) -> list[Any]:
        return list(dict.fromkeys(key[position] for key in self.values))

    @property
    def data(self) -> list[str]:
        """The data sets, in the order of the run."""
        return self._axis(0)

    @property
    def recognizers(self) -> list[str]:
        """The recognizers, in the order of the run."""
        return self._axis(1)

    def known(self, data: str) -> list[int]:
        """The numbers of known classes tested on a data set, ascending."""
        return sorted({key[2] for key in self.values if key[0] == data})

    def unknown(self, data: str) -> list[int]:
        """The numbers of unknown classes tested on a data set, ascending, without 0."""
        return sorted({key[3] for key in self.values if key[0] == data and key[3] > 0})

    @property
    def tau_factors(self) -> list[float]:
        """The thresholds tested, as multiples of the calibrated one, ascending."""
        return sorted(self._axis(4))

    def cell(
        self, data: str, recognizer: str, K: int, U: int, measure: str, *, tau_factor: float = 1.0
    ) -> Floats:
        """Return the values of all class orders."""
        return self.values[data, recognizer, K, U, tau_factor, measure]

    def has(self, data: str, recognizer: str, K: int, U: int, measure: str, tau_factor: float = 1.0) -> bool:
        """Return whether this was measured."""
        return (data, recognizer, K, U, tau_factor, measure) in self.values

    def never_rejects(self, data: str, recognizer: str) -> bool:
        """Return whether no sample at all was rejected, at the calibrated threshold."""
        return all(
            self.cell(data, recognizer, K, U, "known_recall").min() == 1
            and (U == 0 or self.cell(data, recognizer, K, U, "unknown_rejection").max() == 0)
            for K in self.known(data)
            for U in (0, *self.unknown(data))
        )

    def over_stages(self, data: str, recognizer: str, U: int, measure: str) -> Floats:
        """Return the mean over the stages of the protocol, one value for each class order."""
        stages = [self.cell(data, recognizer, K, U, measure) for K in self.known(data)]
        return np.asarray(np.mean(stages, axis=0))


def difference(a: Floats, b: Floats) -> Interval:
    """Return the mean of a - b with its 95 % interval, paired over class orders.

    With a single class order the interval is infinite.
    """
    differences = np.asarray(a) - np.asarray(b)
    if len(differences) == 1:
        return Interval(float(differences[0]), -np.inf, np.inf)
    return fold_interval(differences)


def is_significant(interval: Interval) -> bool:
    """Return whether the interval of a difference excludes zero."""
    return bool(interval.low > 0 or interval.high < 0)
