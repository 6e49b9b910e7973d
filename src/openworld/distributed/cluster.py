"""The engine that processes parts on a Dask cluster."""

from __future__ import annotations

import operator
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

from openworld.distributed.engine import LOCAL, PARTS_IN_A_SUM, Done, Engine, blocks_of, run

_ATTEMPTS = 4
_SECONDS_TO_CONNECT = 10


class DaskEngine:
    """The engine that processes parts on a Dask cluster.

    Parts are sent as references, shared values go from the client directly to the workers, and results stay
    on the workers until they are summed, so no array passes through the scheduler. Results of a lost worker
    are computed again on another one.
    """

    def __init__(self, client: Any) -> None:
        self.client = client

    def map(
        self, function: Callable[..., Any], parts: Iterable[Any], *shared: Any, done: Done | None = None
    ) -> Iterator[Any]:
        """Yield the result of each part, in order; the number of parts in progress is bounded."""
        return self._results([[part] for part in parts], function, shared, done)

    def sums(
        self, function: Callable[..., Any], parts: Sequence[Any], *shared: Any, done: Done | None = None
    ) -> Iterator[Any]:
        """Yield the sums over every 16 parts."""
        return self._results(blocks_of(parts), function, shared, done)

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
                    if attempt:  # send again what the lost worker had
                        copies = self._share(shared)
                        future = self._submit(function, block, copies)
                    result = future.result()
                    break
                except self._lost() as error:
                    if attempt == _ATTEMPTS - 1:
                        raise RuntimeError(
                            f"The cluster lost {block[0]} {_ATTEMPTS} times: {error}"
                        ) from error
            if done is not None:
                done(sum(map(len, block)))
            yield result

    def _submit(self, function: Callable[..., Any], block: list[Any], copies: Sequence[Any]) -> Any:
        """Submit some parts and their sum; sums have priority, so that results do not accumulate."""
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
    """Provide the engine at an address: None for this process, "local" for one process per core, or tcp://...

    Every worker must have this version of openworld and reach the files of the stream under the same
    path or address; the client must reach the workers.
    """
    if address is None:
        yield LOCAL
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
            yield DaskEngine(client)
        return
    with (
        local_cluster(os.cpu_count() or 1) as cluster,
        Client(cluster, direct_to_workers=True, set_as_default=False) as client,
    ):
        yield DaskEngine(client)


@contextmanager
def local_cluster(n_workers: int, **options: Any) -> Iterator[Any]:
    """Provide a Dask cluster of local processes; `options` are those of `distributed.LocalCluster`."""
    import dask

    import distributed

    LocalCluster: Any = distributed.LocalCluster
    # By default Dask's workers return memory to the system at once and fetch it again page by page.
    environment = {"distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 256 << 20}
    address = {"dashboard_address": "127.0.0.1:0", "host": "127.0.0.1"}
    with (
        dask.config.set(environment),
        LocalCluster(n_workers=n_workers, threads_per_worker=1, **address, **options) as cluster,
    ):
        yield cluster
