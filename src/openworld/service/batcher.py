"""Micro-batching: concurrent requests share one matrix product."""

from __future__ import annotations

import asyncio
import os
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

_MAX_ROWS = 256  # a batch of so many is full: a larger one would not be faster
_MAX_THREADS = 4
_FEW_REQUESTS = 8  # a batch of this size takes little longer than one request
_NO_ITEM = SampleContent()


@dataclass(eq=False, slots=True)  # not frozen: creating a frozen instance takes five times as long
class _Request:
    """A queued request: its samples, its options and the future of its response."""

    X: NDArray[Any]
    items: Sequence[SampleContent]
    remember: bool
    nearest: int
    reply: asyncio.Future[bytes]

    def can_share_batch(self, other: _Request) -> bool:
        return self.remember == other.remember and self.X.dtype == other.X.dtype


_Reply = tuple[_Request, bytes | BaseException]


class Batcher:
    """Collects the requests that arrive while a batch is recognized into the next batch.

    No request waits for a batch to fill up: a single request is recognized at once. Worker threads recognize
    the batches and serialize the answers, so the event loop is not blocked. Full batches are recognized side
    by side, as far as there are processors, and beside them one batch that is not full. Requests with samples
    to store are answered once these are stored; the other requests and the next batch do not wait for that.

    Parameters
    ----------
    world : World
    observe : callable
        Called with the answers to every batch.
    """

    def __init__(self, world: World, observe: Callable[[RecognitionResult], None]) -> None:
        self._recognition, self._observe = world.recognition, observe
        self._waiting: list[_Request] = []
        self._n_waiting = 0  # samples
        self._working: list[int] = []  # the number of samples in each batch that is being recognized
        self._n_threads = min(os.cpu_count() or 1, _MAX_THREADS)
        self._threads = ThreadPoolExecutor(self._n_threads, thread_name_prefix="openworld-recognition")
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
            If the samples do not fit the model, or there are none.
        """
        if X.ndim != 2 or X.shape[1] != self.n_features or not len(X):
            as_features(X, self.n_features)  # raises with the reason
            raise Refused("No samples were given.")
        loop = asyncio.get_running_loop()
        items = [_NO_ITEM] * len(X) if items is None else items
        request = _Request(X, items, remember, nearest, loop.create_future())
        self._waiting.append(request)
        self._n_waiting += len(X)
        self._start(loop)
        return await request.reply

    def close(self) -> None:
        """Finish the current batches."""
        self._threads.shutdown()

    def _start(self, loop: asyncio.AbstractEventLoop, n_answered: int = 0) -> None:
        """Submit the next batches: half of the active requests, or all of them if they are few.

        Active requests are those that wait and those just answered. While a thread recognizes one half, the
        event loop answers the other half and receives the next requests of its clients. With a single batch,
        thread and event loop would wait for each other.
        """
        while self._waiting and len(self._working) < self._n_threads:
            if self._n_waiting < _MAX_ROWS and min(self._working, default=_MAX_ROWS) < _MAX_ROWS:
                return
            most = max(_FEW_REQUESTS, -(-(len(self._waiting) + n_answered) // 2))
            requests, n_rows = self._next_batch(most)
            self._n_waiting -= n_rows
            self._working.append(n_rows)
            self._threads.submit(self._work, loop, requests, n_rows)

    def _next_batch(self, most: int) -> tuple[list[_Request], int]:
        """Take at most so many requests from those that wait; return them and the number of their samples."""
        first, n_rows = self._waiting[0], 0
        requests: list[_Request] = []
        remaining: list[_Request] = []
        for request in self._waiting:
            fits = len(requests) < most and n_rows + len(request.X) <= _MAX_ROWS
            if request.can_share_batch(first) and (fits or not requests):
                requests.append(request)
                n_rows += len(request.X)
            else:
                remaining.append(request)
        self._waiting = remaining
        return requests, n_rows

    def _work(self, loop: asyncio.AbstractEventLoop, requests: Sequence[_Request], n_rows: int) -> None:
        replies = self._replies(loop, requests)
        loop.call_soon_threadsafe(self._finish, loop, replies, len(requests), n_rows)

    def _replies(self, loop: asyncio.AbstractEventLoop, requests: Sequence[_Request]) -> list[_Reply]:
        """Return the replies to requests; those with samples to store are replied to later."""
        try:
            return self._recognize(loop, requests)
        except Exception as error:
            if len(requests) == 1:
                return [(requests[0], error)]
            # Retry one by one: perhaps only one of them fails.
            return [reply for request in requests for reply in self._replies(loop, [request])]

    def _recognize(self, loop: asyncio.AbstractEventLoop, requests: Sequence[_Request]) -> list[_Reply]:
        X = requests[0].X if len(requests) == 1 else np.concatenate([request.X for request in requests])
        items = [item for request in requests for item in request.items]
        result, to_store, stored = self._recognition.start(X, items, remember=requests[0].remember)
        self._observe(result)
        ready: list[tuple[_Request, range]] = []
        waiting: list[tuple[_Request, range]] = []
        for request, rows in zip(requests, _split(range(len(X)), requests), strict=True):
            (ready if to_store.isdisjoint(rows) else waiting).append((request, rows))

        def reply_to_waiting(_: object) -> None:
            error = stored.exception()
            replies = [
                (request, error or _as_json(result, rows, request.nearest)) for request, rows in waiting
            ]
            loop.call_soon_threadsafe(_reply, replies)

        if waiting:
            stored.add_done_callback(reply_to_waiting)
        return [(request, _as_json(result, rows, request.nearest)) for request, rows in ready]

    def _finish(
        self, loop: asyncio.AbstractEventLoop, replies: Sequence[_Reply], n_answered: int, n_rows: int
    ) -> None:
        self._working.remove(n_rows)
        self._start(loop, n_answered)  # first, so the thread works while the replies are sent
        _reply(replies)


def _reply(replies: Sequence[_Reply]) -> None:
    for request, reply in replies:
        if request.reply.done():  # the client has disconnected
            continue
        if isinstance(reply, bytes):
            request.reply.set_result(reply)
        else:
            request.reply.set_exception(reply)


def _split(rows: range, requests: Sequence[_Request]) -> Iterator[range]:
    """Yield the row range of each request in a batch."""
    for request in requests:
        yield rows[: len(request.X)]
        rows = rows[len(request.X) :]


def _as_json(result: RecognitionResult, rows: range, n_nearest: int) -> bytes:
    """Return rows of a result, each with its `n_nearest` nearest classes, as `schemas.RecognizeResponse`."""
    found = {
        "model_version": result.model_version,
        "threshold": result.judgement.threshold,
        "answers": result.rows(rows, n_nearest),
    }
    return to_json(found)
