"""Micro-batching: concurrent requests share one matrix product."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
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
_MOMENT = 0.005  # seconds that the event loop may be blocked
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
    """Collects the requests that arrive together, or while a batch is recognized, into the next batch.

    No request waits for a batch to fill up: a single request is recognized at once. The event loop recognizes
    a batch that takes a moment itself: a thread would take longer, because both need the interpreter. Longer
    ones are for worker threads. Full batches are recognized side by side, as far as there are processors, and
    beside them one batch that is not full. Requests with samples to store are answered once these are stored;
    the other requests and the next batch do not wait for that.

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
        self._is_due = False  # whether requests are being gathered
        self._working: list[int] = []  # the number of samples in each batch that a thread recognizes
        self._seconds_per_row = math.inf
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
        if not self._is_due:
            self._is_due = True
            loop.call_soon(self._gather, loop, 0)
        return await request.reply

    def close(self) -> None:
        """Finish the current batches."""
        self._threads.shutdown()

    def _gather(self, loop: asyncio.AbstractEventLoop, n_before: int) -> None:
        """Start the next batches once a turn of the event loop brings no more requests."""
        if n_before < self._n_waiting < _MAX_ROWS:
            loop.call_soon(self._gather, loop, self._n_waiting)
        else:
            self._is_due = False
            self._start(loop)

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Recognize the next batches, or submit them to threads."""
        while self._waiting and len(self._working) < self._n_threads:
            if self._n_waiting < _MAX_ROWS and min(self._working, default=_MAX_ROWS) < _MAX_ROWS:
                return
            requests, n_rows = self._next_batch()
            self._n_waiting -= n_rows
            if n_rows * self._seconds_per_row < _MOMENT:
                replies, seconds = self._work(loop, requests)
                self._finish(replies, seconds / n_rows)
            else:
                self._working.append(n_rows)
                self._threads.submit(self._work_in_thread, loop, requests, n_rows)

    def _next_batch(self) -> tuple[list[_Request], int]:
        """Take requests from those that wait; return them and the number of their samples."""
        first, n_rows = self._waiting[0], 0
        requests: list[_Request] = []
        remaining: list[_Request] = []
        for request in self._waiting:
            fits = not requests or n_rows + len(request.X) <= _MAX_ROWS
            if fits and request.can_share_batch(first):
                requests.append(request)
                n_rows += len(request.X)
            else:
                remaining.append(request)
        self._waiting = remaining
        return requests, n_rows

    def _work_in_thread(
        self, loop: asyncio.AbstractEventLoop, requests: Sequence[_Request], n_rows: int
    ) -> None:
        replies, seconds = self._work(loop, requests)

        def finish() -> None:
            self._working.remove(n_rows)
            self._start(loop)  # first, so the thread works while the replies are sent
            self._finish(replies, seconds / n_rows)

        loop.call_soon_threadsafe(finish)

    def _work(
        self, loop: asyncio.AbstractEventLoop, requests: Sequence[_Request]
    ) -> tuple[list[_Reply], float]:
        """Return the replies to requests, and the seconds that they took."""
        started = perf_counter()
        return self._replies(loop, requests), perf_counter() - started

    def _finish(self, replies: Sequence[_Reply], seconds_per_row: float) -> None:
        # The minimum, because a small batch takes longer for each of its samples.
        self._seconds_per_row = min(seconds_per_row, 1.1 * self._seconds_per_row)
        _reply(replies)

    def _replies(self, loop: asyncio.AbstractEventLoop, requests: Sequence[_Request]) -> list[_Reply]:
        """Return the replies to requests; those with samples to store are replied to later."""
        try:
            return self._recognize(loop, requests)
        except Exception as error:
            if len(requests) == 1:
                return [(requests[0], error)]
            # Retry by halves: perhaps only one of them fails.
            half = len(requests) // 2
            return [*self._replies(loop, requests[:half]), *self._replies(loop, requests[half:])]

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
