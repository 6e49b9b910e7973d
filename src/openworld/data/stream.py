"""Stream: feature vectors in parts, each read by the worker that processes it, in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import current_thread
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from openworld.data.errors import DataError
from openworld.data.sources import Source

T = TypeVar("T")


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
    groups : array of str of shape (n,) or None
        Samples of one group are near copies of each other; "" for a sample that is a group of its own.
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
    groups: NDArray[Any] | None = None
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
            groups=None if self.groups is None else self.groups[places],
        )

    @classmethod
    def joined(cls, batches: Sequence[Batch]) -> Batch:
        """Concatenate one or more batches."""
        if len(batches) == 1:
            return batches[0]
        full = [batch for batch in batches if len(batch)] or list(batches[:1])
        y = [batch.y for batch in full if batch.y is not None]
        groups = [batch.groups for batch in full if batch.groups is not None]
        return cls(
            np.concatenate([batch.X for batch in full]),
            np.concatenate(y) if y else None,
            np.concatenate([batch.rows for batch in full]),
            None if full[0].names is None else [name for batch in full for name in batch.names or []],
            None if full[0].ids is None else [one for batch in full for one in batch.ids or []],
            np.concatenate(groups) if groups else None,
            [failure for batch in batches for failure in batch.failures],
            sum(batch.n_unlabeled for batch in batches),
            dict(sum((Counter(batch.seconds) for batch in batches), Counter())),
        )


class Part(Protocol):
    """A range of consecutive samples: a small description that can be sent to the worker that reads it."""

    side_by_side: bool  # whether several parts should be processed in parallel, one per thread

    def __len__(self) -> int: ...

    def __str__(self) -> str: ...

    @property
    def rows(self) -> NDArray[np.int64]:
        """The indices of the samples in the stream, from 0."""
        ...

    def batches(self) -> Iterator[Batch]:
        """Read the samples in batches of bounded size."""
        ...

    def select(self, wanted: NDArray[np.bool_]) -> Iterator[Batch]:
        """Read the selected samples; a part may skip reading the others."""
        ...

    def labels(self) -> NDArray[Any]:
        """Read only the labels; "" for a sample without a label."""
        ...


@dataclass(frozen=True)
class Stream:
    """Samples in a fixed order, always divided into the same parts. Data in memory are one part.

    Attributes
    ----------
    name : str
        For messages.
    parts : list of Part
    n_features : int
    labeled : bool
    extractor : dict of str or None
        The id of the feature extractor; None if the samples are plain vectors.
    feature_names : list of str or None
        The columns of a table, in the order of the features.
    source : Source or None
        The pictures or texts; None if the samples are vectors.
    notes : list of str
        Notes for the user about how the data are read.
    """

    name: str
    parts: Sequence[Any]
    n_features: int
    labeled: bool
    extractor: dict[str, str] | None = None
    feature_names: list[str] | None = None
    source: Source | None = None
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def noun(self) -> str:
        """The word for one sample in messages."""
        if self.source is None:
            return "sample"
        return "picture" if self.source.kind == "image" else "text"

    @property
    def n_bytes(self) -> int:
        """Approximate memory of all features."""
        return len(self) * self.n_features * 4

    def batches(self) -> Iterator[Batch]:
        """Yield all samples in batches; the next batch is read in the background."""
        return read_ahead(batch for part in self.parts for batch in part.batches())

    def read(self) -> Batch:
        """Read all samples into memory.

        Raises
        ------
        DataError
            If no sample could be used.
        """
        whole = Batch.joined(list(self.batches()))
        require_samples(self, len(whole), whole.failures)
        return whole


def require_samples(stream: Stream, n_samples: int, failures: Sequence[tuple[str, str]]) -> None:
    """Raise DataError with the first failure if no sample could be used."""
    if not n_samples:
        name, reason = failures[0] if failures else (stream.name, "it is empty")
        what = stream.noun if len(stream) == 1 else f"{stream.noun}s"
        raise DataError(
            f"{stream.name}: it has {len(stream):,} {what}, but none can be used. The first is {name}: "
            f"{reason.rstrip('.')}."
        )


@dataclass(frozen=True, eq=False)
class ArrayPart:
    """A part whose samples are in memory.

    Attributes
    ----------
    path : str
        The file they were read from.
    batch : Batch
    """

    path: str
    batch: Batch = field(repr=False)
    side_by_side: ClassVar[bool] = True

    def __len__(self) -> int:
        return len(self.batch)

    def __str__(self) -> str:
        return self.path

    @property
    def rows(self) -> NDArray[np.int64]:
        """The indices of the samples in the stream."""
        return self.batch.rows

    def batches(self) -> Iterator[Batch]:
        """Yield all samples as one batch."""
        yield self.batch

    def select(self, wanted: NDArray[np.bool_]) -> Iterator[Batch]:
        """Yield the selected samples."""
        yield self.batch.take(wanted)

    def labels(self) -> NDArray[Any]:
        """Return the labels."""
        if self.batch.y is None:
            raise DataError(f"{self.path}: it has no labels.")
        return self.batch.y


def read_ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield items while a thread fetches the next one."""
    end, own_thread = object(), current_thread()
    pool = ThreadPoolExecutor(1, thread_name_prefix="read-ahead")
    try:
        coming = pool.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = pool.submit(next, items, end)
            yield item  # type: ignore[misc]
    finally:  # the garbage collector may close it in the thread of the pool, which cannot wait for itself
        pool.shutdown(wait=current_thread() is own_thread)
