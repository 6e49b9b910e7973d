"""Engines, which process the parts of a stream: the protocol, and the engine of this process."""

from __future__ import annotations

import operator
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import reduce
from itertools import islice
from typing import Any, Protocol

from openworld.data.errors import DataError
from openworld.data.stream import Batch
from openworld.recognition.blas import one_blas_thread

_MOST_THREADS = 4
PARTS_IN_A_SUM = 16  # fixed, as the order of summation must not depend on the number of workers
Done = Callable[[int], None]


class PartError(DataError):
    """A part cannot be processed; the message names the part."""


def run(function: Callable[..., Any], part: Any, *shared: Any) -> Any:
    """Process one part; an error names the part."""
    try:
        return function(part, *shared)
    except Exception as error:
        if isinstance(error, DataError) and str(error).startswith(str(part)):
            raise
        raise PartError(f"{part}: {error}") from error


def blocks_of(parts: Sequence[Any]) -> list[list[Any]]:
    """Return the parts in blocks of 16; the results of a block are summed first."""
    return [list(parts[i : i + PARTS_IN_A_SUM]) for i in range(0, len(parts), PARTS_IN_A_SUM)]


class Engine(Protocol):
    """Processes parts. `done`, if given, is called with the number of samples of each finished part."""

    def map(
        self, function: Callable[..., Any], parts: Iterable[Any], *shared: Any, done: Done | None = None
    ) -> Iterator[Any]:
        """Yield ``function(part, *shared)`` for each part, in order."""
        ...

    def sums(
        self, function: Callable[..., Any], parts: Sequence[Any], *shared: Any, done: Done | None = None
    ) -> Iterator[Any]:
        """Yield the sum of ``function(part, *shared)`` over every 16 parts, added from left to right."""
        ...


class LocalEngine:
    """The engine of this process.

    Parts of files are processed in parallel by threads, as numpy releases the GIL; each thread uses one BLAS
    thread. The results do not depend on the number of threads.

    Parameters
    ----------
    n_threads : int, optional
        By default one per core, but at most 4, as each thread holds a few batches in memory.
    """

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_threads = n_threads or min(os.cpu_count() or 1, _MOST_THREADS)

    def map(
        self, function: Callable[..., Any], parts: Iterable[Any], *shared: Any, done: Done | None = None
    ) -> Iterator[Any]:
        """Yield the result of each part, in order."""
        waiting = deque(parts)
        if not all(part.side_by_side for part in waiting):
            for part in waiting:
                yield run(function, part if done is None else _Watched(part, done), *shared)
            return
        pending: deque[tuple[Any, Future[Any]]] = deque()
        with _threads(self.n_threads) as pool, one_blas_thread():
            while waiting or pending:
                while waiting and len(pending) < 2 * self.n_threads:
                    part = waiting.popleft()
                    pending.append((part, pool.submit(run, function, part, *shared)))
                part, future = pending.popleft()
                result = future.result()
                if done is not None:
                    done(len(part))
                yield result

    def sums(
        self, function: Callable[..., Any], parts: Sequence[Any], *shared: Any, done: Done | None = None
    ) -> Iterator[Any]:
        """Yield the sums over every 16 parts."""
        results = self.map(function, parts, *shared, done=done)
        for block in blocks_of(parts):
            yield reduce(operator.add, islice(results, len(block)))


class _Watched:
    """A part that reports progress after every batch, for pictures, which are slow."""

    def __init__(self, part: Any, done: Done) -> None:
        self.part, self.done = part, done

    def __len__(self) -> int:
        return len(self.part)

    def __str__(self) -> str:
        return str(self.part)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.part, name)

    def batches(self) -> Iterator[Batch]:
        """Read the samples and report how many."""
        for batch in self.part.batches():
            self.done(batch.n_read)
            yield batch


@contextmanager
def _threads(n: int) -> Iterator[ThreadPoolExecutor]:
    """Provide a thread pool; on exit, tasks that have not started are canceled."""
    pool = ThreadPoolExecutor(n, thread_name_prefix="part")
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


LOCAL = LocalEngine()
