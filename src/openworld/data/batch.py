"""Batch: some samples as feature vectors, with their labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Batch:
    """Some samples in the order of their stream.

    Attributes
    ----------
    X : array of shape (n, D)
    y : array of shape (n,) or None
        The labels; "" stands for a sample without one.
    rows : array of shape (n,)
        The number of each sample in the whole stream, from 0.
    names : list of str or None
        What the samples are features of: where a picture lies, or a text.
    ids : list or None
        The values of the id column.
    failures : list of (name, reason)
        What could not be read and was left out.
    n_unlabeled : int
        How many were left out because they have no label.
    seconds : dict of float
        Time spent on the steps of the extraction, summed over its threads.
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
        """How many samples were read, with those left out."""
        return len(self) + len(self.failures) + self.n_unlabeled

    def take(self, wanted: NDArray[np.bool_]) -> Batch:
        """Return some of the samples; what was skipped is kept as it was."""
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
        """Return several batches, at least one, as one."""
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
