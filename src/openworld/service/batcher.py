"""Micro-batching: requests that come at the same time share one matrix product."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from openworld.service.recognition import RecognitionResult
from openworld.service.validation import Refused, as_features
from openworld.service.world import World
from openworld.store.records import SampleContent

_MAX_ROWS = 256
_QUIET_ROUNDS = 3
_NO_ITEM = SampleContent()


@dataclass(eq=False, slots=True)  # frozen, one takes five times as long to make
class _Order:
    """The samples of one request, and the future of its answer."""

    X: NDArray[Any]
    items: Sequence[SampleContent]
    remember: bool
    nearest: int
    reply: asyncio.Future[bytes]

    def goes_with(self, other: _Order) -> bool:
        return self.remember == other.remember and self.X.dtype == other.X.dtype


_Reply = tuple[_Order, bytes | BaseException]


class Batcher:
    """Collects the requests that wait while a batch is recognized, and makes them the next batch.

    Nothing waits for a batch to fill up: one request alone is recognized at once. Batches are recognized, and
    their answers written as JSON, in a thread of their own, so that the event loop goes on. Requests with
    samples to store are answered once these are stored; neither the others nor the next batch wait for that.

    Parameters
    ----------
    world : World
    observe : callable
        Called with the answers to every batch.
    """

    def __init__(self, world: World, observe: Callable[[RecognitionResult], None]) -> None:
        self._recognition, self._observe = world.recognition, observe
        self._waiting: list[_Order] = []
        self._working = False
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="openworld-recognition")
        self.n_features = world.model.n_features

    async def recognize(
        self,
        X: NDArray[Any],
        items: Sequence[SampleContent] | None = None,
        *,
        remember: bool = True,
        nearest: int = 5,
    ) -> bytes:
        """Return the answers to the samples of one request as JSON; see `schemas.RecognizeResponse`.

        Raises
        ------
        Refused
            If they cannot be samples of the model.
        """
        if X.ndim != 2 or X.shape[1] != self.n_features or not len(X):
            as_features(X, self.n_features)  # says what is wrong
            raise Refused("No samples were given.")
        loop = asyncio.get_running_loop()
        items = [_NO_ITEM] * len(X) if items is None else items
        order = _Order(X, items, remember, nearest, loop.create_future())
        self._waiting.append(order)
        if not self._working:
            self._start(loop)
        return await order.reply

    def close(self) -> None:
        """Finish the current batch."""
        self._threads.shutdown()

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hand the requests that wait, or as many as make a batch, to the thread."""
        self._working = True
        self._threads.submit(self._work, loop, self._next_batch())

    def _next_batch(self) -> list[_Order]:
        first, n_rows = self._waiting[0], 0
        orders: list[_Order] = []
        left: list[_Order] = []
        for order in self._waiting:
            if order.goes_with(first) and (not orders or n_rows + len(order.X) <= _MAX_ROWS):
                orders.append(order)
                n_rows += len(order.X)
            else:
                left.append(order)
        self._waiting = left
        return orders

    def _work(self, loop: asyncio.AbstractEventLoop, orders: Sequence[_Order]) -> None:
        replies = self._replies(loop, orders)
        loop.call_soon_threadsafe(self._finish, loop, replies)

    def _replies(self, loop: asyncio.AbstractEventLoop, orders: Sequence[_Order]) -> list[_Reply]:
        """Return the replies to requests, except to those that wait for the disk: these are sent later."""
        try:
            return self._recognize(loop, orders)
        except Exception as error:
            if len(orders) == 1:
                return [(orders[0], error)]
            # Perhaps only one of them fails.
            return [reply for order in orders for reply in self._replies(loop, [order])]

    def _recognize(self, loop: asyncio.AbstractEventLoop, orders: Sequence[_Order]) -> list[_Reply]:
        X = orders[0].X if len(orders) == 1 else np.concatenate([order.X for order in orders])
        items = [item for order in orders for item in order.items]
        result, to_store, stored = self._recognition.start(X, items, remember=orders[0].remember)
        self._observe(result)
        ready: list[tuple[_Order, range]] = []
        waiting: list[tuple[_Order, range]] = []
        for order, rows in zip(orders, _split(range(len(X)), orders), strict=True):
            (ready if to_store.isdisjoint(rows) else waiting).append((order, rows))

        def reply_to_waiting(_: object) -> None:
            error = stored.exception()
            replies = [(order, error or _as_json(result, rows, order.nearest)) for order, rows in waiting]
            loop.call_soon_threadsafe(_reply, replies)

        if waiting:
            stored.add_done_callback(reply_to_waiting)
        return [(order, _as_json(result, rows, order.nearest)) for order, rows in ready]

    def _finish(self, loop: asyncio.AbstractEventLoop, replies: Sequence[_Reply]) -> None:
        _reply(replies)
        self._gather(loop, -1, _QUIET_ROUNDS)

    def _gather(self, loop: asyncio.AbstractEventLoop, n_before: int, rounds: int) -> None:
        """Start the next batch once the event loop has nothing more for it.

        Clients that were just answered often send the next request at once: a few rounds of the loop, which
        take no time where nothing happens, make one batch of what would be two.
        """
        n_waiting = len(self._waiting)
        rounds = _QUIET_ROUNDS if n_waiting > n_before else rounds - 1
        if rounds and n_waiting < _MAX_ROWS:
            loop.call_soon(self._gather, loop, n_waiting, rounds)
        elif n_waiting:
            self._start(loop)
        else:
            self._working = False


def _reply(replies: Sequence[_Reply]) -> None:
    for order, reply in replies:
        if order.reply.done():  # the client has disconnected
            continue
        if isinstance(reply, bytes):
            order.reply.set_result(reply)
        else:
            order.reply.set_exception(reply)


def _split(rows: range, orders: Sequence[_Order]) -> Iterator[range]:
    """Yield the rows of each request in a batch."""
    for order in orders:
        yield rows[: len(order.X)]
        rows = rows[len(order.X) :]


def _as_json(result: RecognitionResult, rows: range, n_nearest: int) -> bytes:
    """Return some rows of a result, with so many nearest classes each, as `schemas.RecognizeResponse`."""
    found = {
        "model_version": result.model_version,
        "threshold": result.judgement.threshold,
        "answers": result.rows(rows, n_nearest),
    }
    return to_json(found)
