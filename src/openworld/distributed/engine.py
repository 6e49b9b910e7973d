"""Where work on parts is done: in this process, or on a Dask cluster."""

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

from threadpoolctl import threadpool_limits

from openworld.data.batch import Batch
from openworld.data.errors import DataError

_MOST_THREADS = 4
PARTS_IN_A_SUM = 16  # fixed, as the order of summation must not depend on the number of workers
_ATTEMPTS = 3
_SECONDS_TO_CONNECT = 10
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


def _blocks(parts: Sequence[Any]) -> list[list[Any]]:
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


class Here:
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
        with _threads(self.n_threads) as pool, threadpool_limits(1, user_api="blas"):
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
        for block in _blocks(parts):
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


HERE = Here()


class Cluster:
    """The engine that is a Dask cluster.

    Parts travel as references, shared values go from the client to the workers directly, and results stay
    on the workers until they are summed up: the scheduler sees no array. What a lost worker had is
    computed again, elsewhere.
    """

    def __init__(self, client: Any) -> None:
        self.client = client

    def map(
        self, function: Callable[..., Any], parts: Iterable[Any], *shared: Any, done: Done | None = None
    ) -> Iterator[Any]:
        """Yield the result of each part, in order; a bounded number of parts is under way."""
        return self._results([[part] for part in parts], function, shared, done)

    def sums(
        self, function: Callable[..., Any], parts: Sequence[Any], *shared: Any, done: Done | None = None
    ) -> Iterator[Any]:
        """Yield the sums over every 16 parts."""
        return self._results(_blocks(parts), function, shared, done)

    def _results(
        self, blocks: list[list[Any]], function: Callable[..., Any], shared: Sequence[Any], done: Done | None
    ) -> Iterator[Any]:
        copies = self._share(shared)
        pending: deque[tuple[list[Any], Any]] = deque()
        waiting = deque(blocks)
        while waiting or pending:
            while waiting and sum(len(block) for block, _ in pending) < self._parts_under_way():
                block = waiting.popleft()
                pending.append((block, self._submit(function, block, copies)))
            block, future = pending.popleft()
            for attempt in range(_ATTEMPTS):
                try:
                    result = future.result()
                    break
                except self._lost() as error:
                    if attempt == _ATTEMPTS - 1:
                        raise RuntimeError(
                            f"The cluster lost {block[0]} {_ATTEMPTS} times: {error}"
                        ) from error
                    copies = self._share(shared)
                    future = self._submit(function, block, copies)
            if done is not None:
                done(sum(map(len, block)))
            yield result

    def _submit(self, function: Callable[..., Any], block: list[Any], copies: Sequence[Any]) -> Any:
        """Start the work on some parts and their sum; sums go first, so that parts do not pile up."""
        first, *others = [self.client.submit(run, function, part, *copies, pure=False) for part in block]
        return reduce(
            lambda total, part: self.client.submit(operator.add, total, part, pure=False, priority=1),
            others,
            first,
        )

    def _share(self, values: Sequence[Any]) -> list[Any]:
        """Copy values to every worker, so that losing one worker loses none of them."""
        return [self.client.scatter(value, broadcast=True, direct=True, hash=False) for value in values]

    def _parts_under_way(self) -> int:
        n_threads: int = sum(self.client.nthreads().values())
        return 2 * max(PARTS_IN_A_SUM, n_threads)

    @staticmethod
    def _lost() -> tuple[type[BaseException], ...]:
        from concurrent.futures import CancelledError

        from distributed.comm.core import CommClosedError

        from distributed import KilledWorker

        return KilledWorker, CancelledError, CommClosedError


@contextmanager
def connect(address: str | None) -> Iterator[Engine]:
    """Give the engine at an address: None for this process, "local" for a process per core, or tcp://...

    Every worker must have this version of openworld and reach the files of the stream under the same
    path or address; the client must reach the workers.
    """
    if address is None:
        yield HERE
        return
    try:
        import distributed
    except ImportError as error:
        raise ImportError("Working on a Dask cluster needs dask: pip install openworld[scale]") from error
    Client: Any = distributed.Client
    if address != "local":
        try:
            client = Client(
                address, direct_to_workers=True, set_as_default=False, timeout=_SECONDS_TO_CONNECT
            )
        except (OSError, ValueError) as error:
            raise ValueError(
                f"No Dask scheduler answers at {address} ({error}): start one with `dask scheduler`, or give "
                "the address that it prints."
            ) from error
        with client:
            yield Cluster(client)
        return
    with (
        local_cluster(os.cpu_count() or 1) as cluster,
        Client(cluster, direct_to_workers=True, set_as_default=False) as client,
    ):
        yield Cluster(client)


@contextmanager
def local_cluster(n_workers: int, **options: Any) -> Iterator[Any]:
    """Give a Dask cluster of processes here; further options are those of `distributed.LocalCluster`."""
    import dask

    import distributed

    LocalCluster: Any = distributed.LocalCluster
    # Dask has its workers give memory back at once, only to take it again page by page.
    environment = {"distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 256 << 20}
    address = {"dashboard_address": "127.0.0.1:0", "host": "127.0.0.1"}
    with (
        dask.config.set(environment),
        LocalCluster(n_workers=n_workers, threads_per_worker=1, **address, **options) as cluster,
    ):
        yield cluster
