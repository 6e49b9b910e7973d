"""Features of many items: read, look up in the cache, decode and compute, in parallel."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from openworld.features.cache import FeatureCache, content_hash
from openworld.features.decode import decode
from openworld.features.extractor import Extractor
from openworld.recognition.blas import one_blas_thread

OnError = Literal["skip", "stop"]
STEPS = ("reading", "cache", "decoding", "inference")

_PIXELS_AT_ONCE = 16_000_000  # of decoded pictures that wait for the extractor


class RawItem(Protocol):
    """A picture or a text, as a source provides it."""

    @property
    def name(self) -> str:
        """The name to show in errors and tables."""
        ...

    @property
    def label(self) -> str | None:
        """The class, if it is known."""
        ...

    def read(self) -> bytes:
        """Return the file of a picture, or a text in UTF-8."""
        ...


@dataclass(frozen=True)
class Failure:
    """An item without features, and the reason."""

    name: str
    reason: str


@dataclass(frozen=True, eq=False)
class Extracted:
    """Features of items in order, without those that failed.

    Parameters
    ----------
    X : float32 array of shape (n, n_features)
    names : list of str
    labels : list of str or None
    positions : list of int
        The position of each among the items, from 0.
    failures : list of Failure
    seconds : dict
        Time spent on "reading", "cache", "decoding" and "inference", summed over the workers.
    """

    X: NDArray[np.float32]
    names: list[str]
    labels: list[str | None]
    positions: list[int]
    failures: list[Failure]
    seconds: dict[str, float]


class ExtractionError(ValueError):
    """An item could not be read, and `on_error` was "stop"."""


def extract_batches(
    items: Iterable[RawItem],
    extractor: Extractor,
    *,
    cache: FeatureCache | None = None,
    on_error: OnError = "skip",
    workers: int | None = None,
    batch_size: int = 32,
) -> Iterator[Extracted]:
    """Yield the features of items, batch by batch, in order.

    Each worker processes a batch from reading to features, so one reads or decodes while another computes. At
    most two batches per worker are in progress or ready. Finished batches are in the cache even if the caller
    stops early. BLAS uses one thread until the last batch was yielded.

    Parameters
    ----------
    items : iterable of Item
    extractor : Extractor
    cache : FeatureCache, optional
        By default nothing is cached.
    on_error : {"skip", "stop"}, default="skip"
        Whether to list an item that cannot be read as a failure, or to raise an error.
    workers : int, optional
        Number of threads; by default one per core.
    batch_size : int, default=32

    Raises
    ------
    ExtractionError
        If an item cannot be read and `on_error` is "stop"; the message has its name.
    """
    if on_error not in ("skip", "stop"):
        raise ValueError(f'on_error must be "skip" or "stop"; got {on_error!r}.')
    workers = workers or os.cpu_count() or 1
    remaining = iter(items)
    pending: deque[Future[Extracted]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="extract")
    try:
        with one_blas_thread():
            while True:
                while len(pending) < 2 * workers and (batch := list(itertools.islice(remaining, batch_size))):
                    pending.append(pool.submit(_Batch(batch, extractor, cache).run))
                if not pending:
                    return
                part = pending.popleft().result()
                if on_error == "stop" and part.failures:
                    raise ExtractionError(f"{part.failures[0].name}: {part.failures[0].reason}")
                yield part
    finally:
        pool.shutdown(cancel_futures=True)


class _Batch:
    """A batch of items on the way to features; the dicts are by position in the batch."""

    def __init__(self, items: list[RawItem], extractor: Extractor, cache: FeatureCache | None) -> None:
        self.items, self.extractor, self.cache = items, extractor, cache
        self.contents: dict[int, bytes] = {}
        self.hashes: dict[int, str] = {}
        self.reasons: dict[int, str] = {}
        self.features: dict[str, NDArray[np.float32]] = {}  # by hash
        self.seconds = dict.fromkeys(STEPS, 0.0)

    def run(self) -> Extracted:
        for i in range(len(self.items)):
            self._read(i)
        if self.cache is not None:
            with self._timed("cache"):
                found = self.cache.get(list(self.hashes.values()), self.extractor.id)
            n_features = self.extractor.n_features
            self.features = {content: row for content, row in found.items() if len(row) == n_features}
        self._compute()
        return self._result()

    def _read(self, i: int) -> None:
        with self._timed("reading"):
            try:
                self.contents[i] = self.items[i].read()
                self.hashes[i] = content_hash(self.contents[i])
            except Exception as error:  # a source may be anything: a zip, a table, a network drive
                self.reasons[i] = f"cannot be read ({error})"

    def _compute(self) -> None:
        new: dict[str, NDArray[np.float32]] = {}
        for decoded in self._decoded():
            with self._timed("inference"):
                rows = self.extractor.transform(list(decoded.values()))
            new.update(zip(decoded, rows, strict=True))
        if self.cache is not None and new:
            with self._timed("cache"):
                self.cache.put(list(new), self.extractor.id, np.stack(list(new.values())))
        self.features |= new

    def _decoded(self) -> Iterator[dict[str, Any]]:
        """Yield pictures or sentences without features by their hashes, few enough for memory."""
        seen = set(self.features)
        waiting: dict[str, Any] = {}
        pixels = 0
        for i, data in self.contents.items():
            if self.hashes[i] in seen:
                continue
            with self._timed("decoding"):
                try:
                    waiting[self.hashes[i]] = sample = self._decode(data)
                except ValueError as error:
                    self.reasons[i] = str(error)
                    continue
            seen.add(self.hashes[i])
            if self.extractor.kind == "image":
                pixels += sample.width * sample.height
            if pixels > _PIXELS_AT_ONCE:
                yield waiting
                waiting, pixels = {}, 0
        if waiting:
            yield waiting

    def _decode(self, data: bytes) -> Any:
        if self.extractor.kind == "image":
            return decode(data)
        text = data.decode("utf-8")
        if not text.strip():
            raise ValueError("the text is empty")
        return text

    def _result(self) -> Extracted:
        good = [i for i in range(len(self.items)) if i not in self.reasons]
        rows = [self.features[self.hashes[i]] for i in good]
        return Extracted(
            X=np.stack(rows) if rows else np.empty((0, self.extractor.n_features), np.float32),
            names=[self.items[i].name for i in good],
            labels=[self.items[i].label for i in good],
            positions=good,
            failures=[Failure(self.items[i].name, reason) for i, reason in sorted(self.reasons.items())],
            seconds=self.seconds,
        )

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        start = perf_counter()
        try:
            yield
        finally:
            self.seconds[step] += perf_counter() - start


def joined(parts: list[Extracted], n_features: int) -> Extracted:
    """Concatenate batches."""
    sizes = [len(part.names) + len(part.failures) for part in parts]
    starts = itertools.accumulate(sizes, initial=0)
    return Extracted(
        X=np.concatenate([np.empty((0, n_features), np.float32), *(part.X for part in parts)]),
        names=[name for part in parts for name in part.names],
        labels=[label for part in parts for label in part.labels],
        positions=[start + i for start, part in zip(starts, parts, strict=False) for i in part.positions],
        failures=[failure for part in parts for failure in part.failures],
        seconds={step: float(sum(part.seconds[step] for part in parts)) for step in STEPS},
    )
