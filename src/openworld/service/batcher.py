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
_FEW_REQUESTS = 8  # so few are recognized in little more time than one
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

    def _start(self, loop: asyncio.AbstractEventLoop, n_answered: int = 0) -> None:
        """Hand requests that wait to the thread: half of those that come and go, or all where these are few.

        So while one half is recognized, the event loop answers the other half and receives what its clients
        send next. In one batch, they would take turns.
        """
        self._working = True
        most = max(_FEW_REQUESTS, -(-(len(self._waiting) + n_answered) // 2))
        self._threads.submit(self._work, loop, self._next_batch(most))

    def _next_batch(self, most: int) -> list[_Order]:
        first, n_rows = self._waiting[0], 0
        orders: list[_Order] = []
        left: list[_Order] = []
        for order in self._waiting:
            fits = len(orders) < most and n_rows + len(order.X) <= _MAX_ROWS
            if order.goes_with(first) and (fits or not orders):
                orders.append(order)
                n_rows += len(order.X)
            else:
                left.append(order)
        self._waiting = left
        return orders

    def _work(self, loop: asyncio.AbstractEventLoop, orders: Sequence[_Order]) -> None:
        replies = self._replies(loop, orders)
        loop.call_soon_threadsafe(self._finish, loop, replies, len(orders))

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

    def _finish(self, loop: asyncio.AbstractEventLoop, replies: Sequence[_Reply], n_answered: int) -> None:
        if self._waiting:  # first, so that the thread works while the replies are sent
            self._start(loop, n_answered)
        else:
            self._working = False
        _reply(replies)


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
