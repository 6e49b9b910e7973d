"""Storing what requests bring: many requests, one transaction."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future

from openworld.store import Database
from openworld.store.samples import NewSample, store

_MOST_AT_ONCE = 2000

_Order = tuple[Sequence[NewSample], "Future[list[int]]"]


class PoolWriter:
    """A thread that stores all samples that wait, together: a flush to the disk is what takes time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._orders: queue.SimpleQueue[_Order | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="openworld-pool", daemon=True)
        self._thread.start()

    def store(self, samples: Sequence[NewSample]) -> list[int]:
        """Store samples and return their ids once they are safe."""
        future: Future[list[int]] = Future()
        self._orders.put((samples, future))
        return future.result()

    def close(self) -> None:
        """Store what waits and stop."""
        self._orders.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (order := self._orders.get()) is not None:
            orders = [order]
            while sum(len(samples) for samples, _ in orders) < _MOST_AT_ONCE:
                try:
                    following = self._orders.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    self._store(orders)
                    return
                orders.append(following)
            self._store(orders)

    def _store(self, orders: Sequence[_Order]) -> None:
        try:
            with self._database.write() as connection:
                ids = store(self._database, connection, [new for samples, _ in orders for new in samples])
        except BaseException as error:
            for _, future in orders:
                future.set_exception(error)
            return
        for samples, future in orders:
            future.set_result(ids[: len(samples)])
            ids = ids[len(samples) :]
