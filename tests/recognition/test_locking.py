"""Many threads read a model at once, and one that changes it has it to itself."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from openworld import EuclideanMetric, NearestClassMean, NearestNonOutlier, OpenWorldRecognizer
from openworld.recognition import ColdStartRecognizer
from openworld.recognition.locking import ReadWriteLock, lock_of, thread_safe

WAIT = 60


def test_readers_share_and_a_writer_is_alone() -> None:
    lock, both_in = ReadWriteLock(), threading.Barrier(2)
    events: list[str] = []

    def read() -> None:
        with lock.shared(), lock.shared():
            both_in.wait(WAIT)  # passes only if two threads read at once
            events.append("read")

    def write() -> None:
        with lock.exclusive(), lock.exclusive(), lock.shared():
            events.append("write")

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        for done in readers:
            done.result(WAIT)
        pool.submit(write).result(WAIT)
    assert events == ["read", "read", "write"]


def test_a_writer_goes_before_readers_that_come_later() -> None:
    lock, order = ReadWriteLock(), []
    with ThreadPoolExecutor(2) as pool:
        with lock.shared():

            def write() -> None:
                with lock.exclusive():
                    order.append("write")

            def read() -> None:
                with lock.shared():
                    order.append("read")

            writer = pool.submit(write)
            with lock._changed:
                assert lock._changed.wait_for(lambda: lock._waiting or _nudge(lock), WAIT)
            reader = pool.submit(read)
        writer.result(WAIT)
        reader.result(WAIT)
    assert order == ["write", "read"]


def _nudge(lock: ReadWriteLock) -> bool:
    """Look again soon: a writer that begins to wait tells nobody."""
    lock._changed.wait(0.01)
    return bool(lock._waiting)


def test_a_reader_cannot_write() -> None:
    lock = ReadWriteLock()
    with lock.shared(), pytest.raises(RuntimeError, match="is reading the model"), lock.exclusive():
        pass


@pytest.mark.parametrize(
    "recognizer",
    [
        OpenWorldRecognizer(n_lifted=0),
        OpenWorldRecognizer(n_lifted=0, refresh_growth=5.0),
        NearestNonOutlier(EuclideanMetric(), tau=8.0),
    ],
    ids=str,
)
def test_predictions_while_the_model_learns_are_those_of_some_moment(recognizer: Any) -> None:
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(8), 20)
    X = 6 * random.standard_normal((8, 5))[y] + random.standard_normal((len(y), 5))
    start, batches = y < 4, [np.flatnonzero(y == label) for label in range(4, 8)]

    alone = clone(recognizer).fit(X[start], y[start])
    moments = [alone.predict(X).tolist()]
    moments += [alone.partial_fit(X[batch], y[batch]).predict(X).tolist() for batch in batches]

    model, stop = clone(recognizer).fit(X[start], y[start]), threading.Event()
    seen: list[list[int]] = []

    def ask() -> None:
        while not stop.is_set():
            seen.append(model.predict(X).tolist())

    with ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(ask) for _ in range(4)]
        try:
            for batch in batches:
                model.partial_fit(X[batch], y[batch])
        finally:
            stop.set()
        for done in asking:
            done.result(WAIT)
    assert all(answers in moments for answers in seen)
    assert model.predict(X).tolist() == moments[-1]


def test_copies_have_locks_of_their_own() -> None:
    model = NearestNonOutlier(EuclideanMetric(), tau=1.0).fit([[0.0], [1.0], [5.0]], [0, 0, 1])
    copies = [deepcopy(model), pickle.loads(pickle.dumps(model)), clone(model)]  # noqa: S301
    assert len({id(lock_of(each)) for each in [model, *copies]}) == 4
    assert lock_of(model) is lock_of(model)


@pytest.mark.parametrize(
    "kind", [OpenWorldRecognizer, ColdStartRecognizer, NearestNonOutlier, NearestClassMean]
)
def test_every_method_takes_the_lock_once(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that is added later, too: shared if it is known to read only, otherwise alone."""

    @thread_safe
    class Extended(kind):  # type: ignore[misc]
        def added_later(self) -> list[str]:
            return list(taken)

        def predict(self, X: Any) -> list[str]:
            return list(taken)

        def _helper(self) -> list[str]:
            return list(taken)

    taken: list[str] = []

    class Lock:
        def shared(self) -> Any:
            taken.append("shared")
            return nullcontext()

        def exclusive(self) -> Any:
            taken.append("alone")
            return nullcontext()

    monkeypatch.setattr("openworld.recognition.locking.lock_of", lambda model: Lock())
    model = Extended()
    assert model.added_later() == ["alone"]
    taken.clear()
    assert model.predict([]) == ["shared"]
    taken.clear()
    assert model._helper() == []
    with pytest.raises(NotFittedError):
        model.without_classes()
    assert taken == ["alone"]
