"""The few-shot results: ours, ours before this work, and the baselines."""

from __future__ import annotations

import csv
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

OURS, BEFORE = "openworld", "openworld at 9028951"
RECALL, BASE = "new right at fixed rejection", "base OSCR"
DATA = ("letters", "omniglot", "cifar100-deep", "cub200-deep", "ilsvrc10-sift", "clinc150", "banking77")
ALL = "all"
Number = int | str
Key = tuple[str, str, Number, str]


@dataclass(frozen=True)
class FewShot:
    """Values by data set, recognizer, number of samples and measure: one for each class order."""

    values: dict[Key, list[float]]

    @classmethod
    def read(cls, results: Path) -> Self:
        """Read `few-shot-*/results.csv`; the earlier commit's are in `few-shot-before`."""
        values: dict[Key, list[float]] = defaultdict(list)
        for path in sorted(results.glob("few-shot-*/results.csv")):
            with path.open(newline="", encoding="utf-8") as file:
                for row in csv.DictReader(file):
                    name = BEFORE if path.parent.name == "few-shot-before" else row["recognizer"]
                    n: Number = ALL if row["n"] == ALL else int(row["n"])
                    values[row["data"], name, n, row["measure"]].append(float(row["value"]))
        return cls(dict(values))

    def mean(self, data: str, name: str, n: Number, measure: str = RECALL) -> float:
        """Return the mean over class orders; NaN where it was not measured."""
        return float(np.mean(self.values.get((data, name, n, measure), [np.nan])))

    def recall(self, data: str, name: str, n: int = 5) -> str:
        """Return the recall of new classes at fixed rejection, as a cell of a table."""
        value = self.mean(data, name, n)
        return "" if np.isnan(value) else f"{value:.3f}"

    @property
    def data(self) -> list[str]:
        """The data sets."""
        return [data for data in DATA if (data, OURS, 5, RECALL) in self.values]

    def _baselines(self, data: str) -> list[str]:
        found = [name for where, name, *_ in self.values if where == data and name not in (OURS, BEFORE)]
        return list(dict.fromkeys(found))

    def recall_of_best(self, data: str, n: int = 5) -> str:
        """Return ours and the best baseline's recall."""
        others = self._baselines(data)
        if not others:
            return ""
        best = max(others, key=lambda name: self.mean(data, name, n))
        return f"**{self.recall(data, OURS, n)}**, {self.recall(data, best, n)} {best}"

    def ours(self) -> str:
        """Return ours against the earlier commit: recall, ratio, and what base classes pay."""
        names = [*(f"n = {n}" for n in (1, 2, 5, 10, 20)), "all samples"]
        names += [f"base OSCR, {learned}" for learned in ("n = 1", "n = 5", "all samples")]
        lines = ["| data | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
        for data in self.data:
            cells = [self._ratio(data, n) for n in (1, 2, 5, 10, 20)]
            cells += [f"{self.mean(data, OURS, ALL):.2f}", self._paid(data, 1), self._paid(data, 5)]
            lines.append(f"| {data} | " + " | ".join(cells) + f" | {self.mean(data, OURS, ALL, BASE):.3f} |")
        return "\n".join(lines) + "\n"

    def gain(self, data: str, n: int, learned: Number | None = None) -> float:
        """Return how many times the earlier commit's recall ours is, of n or of more samples learned.

        NaN where the earlier commit's was 0.
        """
        return self.mean(data, OURS, learned or n) / (self.mean(data, BEFORE, n) or np.nan)

    def paid(self, data: str, n: int, learned: Number | None = None) -> float:
        """Return the base classes' OSCR less the earlier commit's, beside n or more samples learned."""
        return self.mean(data, OURS, learned or n, BASE) - self.mean(data, BEFORE, n, BASE)

    def _ratio(self, data: str, n: int) -> str:
        now, before = self.mean(data, OURS, n), self.mean(data, BEFORE, n)
        if np.isnan(now):
            return ""
        return f"{now:.2f} (was {before:.2f}{self._times(data, n)})"

    def _times(self, data: str, n: int) -> str:
        return f", x {self.gain(data, n):.2f}" if self.gain(data, n) > 0 else ""

    def gain_in_words(self, data: str, n: int) -> str:
        """Return the gain with n samples, and in brackets with all samples of the new classes."""
        if np.isnan(self.gain(data, n)):
            return "was 0"
        return f"x {self.gain(data, n):.2f} (x {self.gain(data, n, ALL):.2f})"

    def _paid(self, data: str, n: int) -> str:
        return f"{self.mean(data, OURS, n, BASE):.3f} ({self.paid(data, n):+.3f})"

    def baselines(self) -> str:
        """Return recall at fixed rejection of ours and of the baselines, at n = 1 / 5 / 10."""
        names = [OURS, *dict.fromkeys(name for data in self.data for name in self._baselines(data))]
        lines = ["| data | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
        for data in self.data:
            cells = [" / ".join(self.recall(data, name, n)[1:] or "-" for n in (1, 5, 10)) for name in names]
            lines.append(f"| {data} | " + " | ".join(cells) + " |")
        return "\n".join(lines) + "\n"
