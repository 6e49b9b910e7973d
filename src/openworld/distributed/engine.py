"""Engines: where work on parts is done; here, in this process."""

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

from openworld.data.batch import Batch
from openworld.data.errors import DataError
from openworld.recognition.blas import one_blas_thread

_MOST_THREADS = 4
PARTS_IN_A_SUM = 16  # fixed, as the order of summation must not depend on the number of workers
Done = Callable[[int], None]


class PartError(DataError):
    """A part cannot be used; the text says which."""


def run(function: Callable[..., Any], part: Any, *shared: Any) -> Any:
    """Work on one part; an error names the part."""
    try:
        return function(part, *shared)
    except Exception as error:
        if isinstance(error, DataError) and str(error).startswith(str(part)):
            raise
        raise PartError(f"{part}: {error}") from error


def blocks_of(parts: Sequence[Any]) -> list[list[Any]]:
    """Return the parts in groups of 16, each of which is summed up by itself."""
    return [list(parts[i : i + PARTS_IN_A_SUM]) for i in range(0, len(parts), PARTS_IN_A_SUM)]


class Engine(Protocol):
    """Does work on parts. `done`, where given, is called with the number of samples of a part at its end."""

    def map(
        self, function: Callable[..., Any], parts: Iterable[Any], *shared: Any, done: Done | None = None
    ) -> Iterator[Any]:
        """Yield ``function(part, *shared)`` of each part, in order."""
        ...

    def sums(
        self, function: Callable[..., Any], parts: Sequence[Any], *shared: Any, done: Done | None = None
    ) -> Iterator[Any]:
        """Yield the sum of ``function(part, *shared)`` over every 16 parts, added from left to right."""
        ...


class LocalEngine:
    """The engine that is this process.

    Parts of files are worked on side by side by some threads, with one thread of BLAS for each: numpy lets
    others go on while it computes. The results do not depend on how many there are.

    Parameters
    ----------
    n_threads : int, optional
        By default one for each core, but at most 4, as each has some batches in memory.
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
    """A part whose batches are counted as they are read: pictures take long, and progress is to be seen."""

    def __init__(self, part: Any, done: Done) -> None:
        self.part, self.done = part, done

    def __len__(self) -> int:
        return len(self.part)

    def __str__(self) -> str:
        return str(self.part)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.part, name)

    def batches(self) -> Iterator[Batch]:
        """Read the samples, and say so."""
        for batch in self.part.batches():
            self.done(batch.n_read)
            yield batch


@contextmanager
def _threads(n: int) -> Iterator[ThreadPoolExecutor]:
    """Give some threads; what was not begun when they are no longer wanted is not done."""
    pool = ThreadPoolExecutor(n, thread_name_prefix="part")
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


LOCAL = LocalEngine()
