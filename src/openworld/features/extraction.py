"""Many files -> features: read, look up, decode and compute, all at the same time and in bounded memory."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Literal

from openworld.features.batch import Extracted, Failure, RawItem, extract_batch, joined
from openworld.features.cache import FeatureCache
from openworld.features.extractor import Extractor
from openworld.recognition.blas import one_blas_thread

__all__ = ["Extracted", "ExtractionError", "Failure", "OnError", "RawItem", "extract", "extract_batches"]

OnError = Literal["skip", "stop"]


class ExtractionError(ValueError):
    """An item could not be read, and `on_error` was "stop"."""


def extract(
    items: Iterable[RawItem],
    extractor: Extractor,
    *,
    cache: FeatureCache | None = None,
    on_error: OnError = "skip",
    workers: int | None = None,
    batch_size: int = 32,
    progress: Callable[[int], None] | None = None,
) -> Extracted:
    """Return the features of all items at once; the parameters are those of `extract_batches`."""
    batches = extract_batches(
        items,
        extractor,
        cache=cache,
        on_error=on_error,
        workers=workers,
        batch_size=batch_size,
        progress=progress,
    )
    return joined(list(batches), extractor.n_features)


def extract_batches(
    items: Iterable[RawItem],
    extractor: Extractor,
    *,
    cache: FeatureCache | None = None,
    on_error: OnError = "skip",
    workers: int | None = None,
    batch_size: int = 32,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Extracted]:
    """Go through items and yield their features, batch by batch, in their order.

    Each worker takes a batch from reading to features, so that one reads or decodes while another computes.
    At most two batches per worker are under way or wait to be taken. What is done is in the cache, also when
    this is stopped half-way. Until the last batch is taken, BLAS keeps to one thread.

    Parameters
    ----------
    items : iterable of Item
    extractor : Extractor
    cache : FeatureCache, optional
        By default nothing is kept.
    on_error : {"skip", "stop"}, default="skip"
        What to do about an item that cannot be read: list it among the failures, or raise.
    workers : int, optional
        Threads; by default one for each processor.
    batch_size : int, default=32
    progress : callable, optional
        Called after each batch with the number of items done so far, failures among them.

    Raises
    ------
    ExtractionError
        If an item cannot be read and `on_error` is "stop"; the message has its name.
    """
    if on_error not in ("skip", "stop"):
        raise ValueError(f'on_error must be "skip" or "stop"; got {on_error!r}.')
    workers = workers or os.cpu_count() or 1
    remaining, done = iter(items), 0
    pending: deque[Future[Extracted]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="extract")
    try:
        with one_blas_thread():
            while True:
                while len(pending) < 2 * workers and (batch := list(itertools.islice(remaining, batch_size))):
                    pending.append(pool.submit(extract_batch, batch, extractor, cache))
                if not pending:
                    return
                part = pending.popleft().result()
                if on_error == "stop" and part.failures:
                    raise ExtractionError(f"{part.failures[0].name}: {part.failures[0].reason}")
                done += len(part.names) + len(part.failures)
                if progress is not None:
                    progress(done)
                yield part
    finally:
        pool.shutdown(cancel_futures=True)
