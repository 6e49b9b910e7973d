"""Where work on parts is done: in this process, or on a Dask cluster."""

from __future__ import annotations

import operator
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, Protocol

from openworld.data.tables import DataError

PARTS_IN_A_SUM = 16  # fixed, as the order of summation must not depend on the number of workers
_ATTEMPTS = 3
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
    """The engine that is this process."""

    def map(
        self, function: Callable[..., Any], parts: Iterable[Any], *shared: Any, done: Done | None = None
    ) -> Iterator[Any]:
        """Yield the result of each part, in order."""
        for part in parts:
            yield run(function, part, *shared)
            if done is not None:
                done(len(part))

    def sums(
        self, function: Callable[..., Any], parts: Sequence[Any], *shared: Any, done: Done | None = None
    ) -> Iterator[Any]:
        """Yield the sums over every 16 parts."""
        for block in _blocks(parts):
            yield reduce(operator.add, self.map(function, block, *shared, done=done))


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
            yield result
            if done is not None:
                done(sum(map(len, block)))

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
        with Client(address, direct_to_workers=True, set_as_default=False) as client:
            yield Cluster(client)
        return
    LocalCluster: Any = distributed.LocalCluster
    with (
        LocalCluster(
            n_workers=os.cpu_count() or 1,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            host="127.0.0.1",
        ) as cluster,
        Client(cluster, direct_to_workers=True, set_as_default=False) as client,
    ):
        yield Cluster(client)
