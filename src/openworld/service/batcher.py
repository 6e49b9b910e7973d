"""Requests that come at the same time share one matrix product."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.service.judging import as_features
from openworld.service.results import Answers, Item
from openworld.service.world import World

Features = NDArray[np.floating[Any]]
Row = dict[str, Any]

_MOST_ROWS = 256


@dataclass(frozen=True)
class Reply:
    """The answers on the samples of one request, as they are written to JSON."""

    model_version: int
    threshold: float
    rows: list[Row]


@dataclass(frozen=True, eq=False)
class _Order:
    X: Features
    items: Sequence[Item]
    remember: bool
    reply: asyncio.Future[Reply]

    def goes_with(self, other: _Order) -> bool:
        return self.remember == other.remember and self.X.dtype == other.X.dtype


class Batcher:
    """Collects the requests that wait while a batch is being recognized, and makes them the next batch.

    Nothing waits for a batch to fill up: one request alone is recognized at once. A batch works in a thread
    of its own, so that the event loop goes on.

    Parameters
    ----------
    world : World
    observe : callable
        Told of the answers to every batch.
    """

    def __init__(self, world: World, observe: Callable[[Answers], None]) -> None:
        self._world, self._observe = world, observe
        self._waiting: list[_Order] = []
        self._working = 0
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="openworld-recognition")
        self.n_features = world.n_features

    async def recognize(self, X: Any, items: Sequence[Item] | None = None, *, remember: bool = True) -> Reply:
        """Recognize the samples of one request; raise `Refused` where they cannot be samples."""
        features = as_features(X, self.n_features)
        loop = asyncio.get_running_loop()
        things = [Item()] * len(features) if items is None else items
        order = _Order(features, things, remember, loop.create_future())
        self._waiting.append(order)
        if not self._working:
            self._start(loop)
        return await order.reply

    def close(self) -> None:
        """Finish what is under way."""
        self._threads.shutdown()

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hand the requests that wait, or as many as make a batch, to the thread."""
        orders = self._next_batch()
        self._working += 1
        work = loop.run_in_executor(self._threads, self._work, orders)
        work.add_done_callback(lambda done: self._finish(loop, orders, done))

    def _next_batch(self) -> list[_Order]:
        first, n_rows = self._waiting[0], 0
        orders, left = [], []
        for order in self._waiting:
            if order.goes_with(first) and (not orders or n_rows + len(order.X) <= _MOST_ROWS):
                orders.append(order)
                n_rows += len(order.X)
            else:
                left.append(order)
        self._waiting = left
        return orders

    def _work(self, orders: Sequence[_Order]) -> list[Reply]:
        X = orders[0].X if len(orders) == 1 else np.concatenate([order.X for order in orders])
        items = [item for order in orders for item in order.items]
        answers = self._world.recognize(X, items, remember=orders[0].remember)
        self._observe(answers)
        rows = as_rows(answers)
        replies, start = [], 0
        for order in orders:
            part = rows[start : start + len(order.X)]
            replies.append(Reply(answers.model_version, answers.threshold, part))
            start += len(order.X)
        return replies

    def _finish(
        self, loop: asyncio.AbstractEventLoop, orders: Sequence[_Order], done: asyncio.Future[list[Reply]]
    ) -> None:
        self._working -= 1
        if self._waiting:
            self._start(loop)
        error = done.exception()
        for i, order in enumerate(orders):
            if order.reply.done():  # its client went away
                continue
            if error is not None:
                order.reply.set_exception(error)
            else:
                order.reply.set_result(done.result()[i])


def as_rows(answers: Answers) -> list[Row]:
    """Return the answers as plain values, one dictionary for each sample."""
    columns = zip(
        answers.labels,
        answers.decision.tolist(),
        answers.membership.tolist(),
        answers.nearest_labels.tolist(),
        answers.nearest_distances.tolist(),
        answers.sample_ids,
        strict=True,
    )
    return [
        {
            "label": label,
            "unknown": label is None,
            "decision": decision,
            "membership": membership,
            "distance": distances[0],
            "nearest": [
                {"label": name, "distance": distance} for name, distance in zip(names, distances, strict=True)
            ],
            "sample_id": sample_id,
        }
        for label, decision, membership, names, distances, sample_id in columns
    ]
