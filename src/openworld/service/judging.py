"""What a model says about samples, as the service tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.service.live_model import Model
from openworld.service.results import Near
from openworld.store.samples import Features, Verdict


@dataclass(frozen=True)
class Judgement:
    """Labels (None for unknown), decisions (positive: known), memberships, and the nearest classes.

    `membership` is that of the class with the largest decision; `nearest_memberships`, shape (n, k), those of
    the nearest classes.
    """

    labels: list[str | None]
    decision: NDArray[np.float64]
    membership: NDArray[np.float64]
    nearest_labels: NDArray[Any]
    nearest_distances: NDArray[np.float64]
    nearest_memberships: NDArray[np.float64]
    threshold: float

    def nearest(self, row: int) -> tuple[Near, ...]:
        """Return the nearest classes of a row."""
        columns = (self.nearest_labels, self.nearest_distances, self.nearest_memberships)
        return tuple(map(Near, *(column[row].tolist() for column in columns)))

    def verdicts(self, rows: list[int], version: int) -> list[Verdict]:
        """Return what the store keeps of some rows."""
        return [
            Verdict(
                self.labels[i],
                float(self.decision[i]),
                float(self.membership[i]),
                self.nearest(i),
                version,
            )
            for i in rows
        ]


def judge(model: Model, X: Features, n_nearest: int) -> Judgement:
    """Judge samples; the labels are those of `predict`."""
    found = model.judge(X, n_nearest)
    labels = [
        name if is_known else None
        for name, is_known in zip(found.labels.tolist(), found.accepted.tolist(), strict=True)
    ]
    return Judgement(
        labels,
        found.decision,
        found.membership,
        found.nearest,
        found.distances,
        found.memberships,
        found.threshold,
    )
