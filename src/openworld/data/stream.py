"""Stream: samples as feature vectors, in parts that are read where they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from openworld.data.batch import Batch
from openworld.data.errors import DataError
from openworld.data.sources import Source

T = TypeVar("T")


class Part(Protocol):
    """A run of samples, given by where they are: small to send, and read where it is needed."""

    side_by_side: bool  # whether several of them are best worked on at a time, each by a thread

    def __len__(self) -> int: ...

    def __str__(self) -> str: ...

    @property
    def rows(self) -> NDArray[np.int64]:
        """The numbers of its samples in the stream, from 0."""
        ...

    def batches(self) -> Iterator[Batch]:
        """Read the samples, a bounded number at a time."""
        ...

    def some(self, wanted: NDArray[np.bool_]) -> Iterator[Batch]:
        """Read the samples that are wanted, and no others where that saves time."""
        ...

    def labels(self) -> NDArray[Any]:
        """Read the labels alone; "" stands for a sample without one."""
        ...


@dataclass(frozen=True)
class Stream:
    """Samples in a fixed order, cut into parts the same way every time. In memory it has one part.

    Attributes
    ----------
    name : str
        For messages.
    parts : list of Part
    n_features : int
    labeled : bool
    extractor : dict of str or None
        The id of the extractor that makes the features; None where they are just numbers.
    feature_names : list of str or None
        The columns of a table, in the order of the features.
    source : Source or None
        The pictures or texts; None where the samples were vectors already.
    notes : list of str
        What a user should know about how the data are read.
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
        """What one sample is called."""
        if self.source is None:
            return "sample"
        return "picture" if self.source.kind == "image" else "text"

    @property
    def n_bytes(self) -> int:
        """About how much memory all features take."""
        return len(self) * self.n_features * 4

    def batches(self) -> Iterator[Batch]:
        """Go through all samples; what comes next is read while a batch is worked on."""
        return read_ahead(batch for part in self.parts for batch in part.batches())

    def read(self) -> Batch:
        """Read all samples into memory.

        Raises
        ------
        DataError
            If none could be used.
        """
        whole = Batch.joined(list(self.batches()))
        require_samples(self, len(whole), whole.failures)
        return whole


def require_samples(stream: Stream, n_samples: int, failures: Sequence[tuple[str, str]]) -> None:
    """Raise DataError if nothing could be used, with the first reason."""
    if not n_samples:
        name, reason = failures[0] if failures else (stream.name, "it is empty")
        raise DataError(
            f"{stream.name}: none of its {len(stream):,} {stream.noun}s could be used. The first is "
            f"{name}: {reason}"
        )


@dataclass(frozen=True, eq=False)
class ArrayPart:
    """Samples that are in memory already.

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
        """The numbers of its samples in the stream."""
        return self.batch.rows

    def batches(self) -> Iterator[Batch]:
        """Give all samples at once."""
        yield self.batch

    def some(self, wanted: NDArray[np.bool_]) -> Iterator[Batch]:
        """Give the samples that are wanted."""
        yield self.batch.take(wanted)

    def labels(self) -> NDArray[Any]:
        """Return the labels."""
        if self.batch.y is None:
            raise DataError(f"{self.path}: it has no labels.")
        return self.batch.y


def read_ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield items while a thread gets the next one."""
    end = object()
    with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as pool:
        coming = pool.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = pool.submit(next, items, end)
            yield item  # type: ignore[misc]
