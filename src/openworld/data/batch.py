"""Batch: feature vectors of some samples, with their labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Batch:
    """Consecutive samples of a stream.

    Attributes
    ----------
    X : array of shape (n, D)
    y : array of shape (n,) or None
        The labels; "" for a sample without a label.
    rows : array of shape (n,)
        The index of each sample in the stream, from 0.
    names : list of str or None
        The path of each picture, or the text itself.
    ids : list or None
        The values of the id column.
    failures : list of (name, reason)
        Samples that could not be read and were skipped.
    n_unlabeled : int
        Number of samples skipped because they have no label.
    seconds : dict of float
        Seconds spent on each step of feature extraction, summed over threads.
    """

    X: NDArray[Any]
    y: NDArray[Any] | None
    rows: NDArray[np.int64]
    names: list[str] | None = None
    ids: list[Any] | None = None
    failures: list[tuple[str, str]] = field(default_factory=list)
    n_unlabeled: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.X)

    @property
    def n_read(self) -> int:
        """Number of samples read, including those skipped."""
        return len(self) + len(self.failures) + self.n_unlabeled

    def take(self, wanted: NDArray[np.bool_]) -> Batch:
        """Return the selected samples; the record of skipped samples stays the same."""
        places = np.flatnonzero(wanted)
        return replace(
            self,
            X=self.X[places],
            y=None if self.y is None else self.y[places],
            rows=self.rows[places],
            names=None if self.names is None else [self.names[i] for i in places],
            ids=None if self.ids is None else [self.ids[i] for i in places],
        )

    @classmethod
    def joined(cls, batches: Sequence[Batch]) -> Batch:
        """Concatenate one or more batches."""
        if len(batches) == 1:
            return batches[0]
        full = [batch for batch in batches if len(batch)] or list(batches[:1])
        y = [batch.y for batch in full if batch.y is not None]
        return cls(
            np.concatenate([batch.X for batch in full]),
            np.concatenate(y) if y else None,
            np.concatenate([batch.rows for batch in full]),
            None if full[0].names is None else [name for batch in full for name in batch.names or []],
            None if full[0].ids is None else [one for batch in full for one in batch.ids or []],
            [failure for batch in batches for failure in batch.failures],
            sum(batch.n_unlabeled for batch in batches),
            dict(sum((Counter(batch.seconds) for batch in batches), Counter())),
        )
