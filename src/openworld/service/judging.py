"""What a model says about samples, as the service tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.recognition import NearestNonOutlier
from openworld.service.acts import Features, Model
from openworld.service.results import Near
from openworld.store.samples import Verdict


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
    if isinstance(model, NearestNonOutlier):
        nearest, found = model.nearest_classes(X, n_nearest)
        distances = found.astype(np.float64)
        decisions = np.asarray(1 - distances / model.tau_, dtype=np.float64)
        names, known = nearest[:, 0], distances[:, 0] < model.tau_
        memberships = np.clip(decisions, 0, 1)
        decision, membership = decisions[:, 0], memberships[:, 0]
    else:
        names, decision, membership, nearest, distances, memberships = model.judge(X, n_nearest)
        known = decision > 0
    labels = [
        name if is_known else None for name, is_known in zip(names.tolist(), known.tolist(), strict=True)
    ]
    return Judgement(labels, decision, membership, nearest, distances, memberships, threshold_of(model))


def threshold_of(model: Model) -> float:
    """Return tau, or the score from which a sample is accepted."""
    return model.tau_ if isinstance(model, NearestNonOutlier) else model.calibration_.threshold
