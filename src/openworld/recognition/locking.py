"""Thread safety of recognizers: many threads may predict at once; learning has exclusive access."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, WeakSet


class ReadWriteLock:
    """A reentrant lock that is held by many readers or by one writer.

    A waiting writer goes before readers that come later, so that a stream of predictions cannot block it
    forever.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._readers = 0
        self._writer: int | None = None
        self._waiting = 0
        self._held = threading.local()  # how often this thread has acquired the lock

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the lock together with other readers."""
        depth = getattr(self._held, "depth", 0)
        if not depth:
            with self._changed:
                self._changed.wait_for(lambda: self._writer is None and not self._waiting)
                self._readers += 1
        self._held.depth = depth + 1
        try:
            yield
        finally:
            self._held.depth = depth
            if not depth:
                with self._changed:
                    self._readers -= 1
                    self._changed.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock alone. A thread that holds it as a reader cannot become the writer."""
        depth, me = getattr(self._held, "depth", 0), threading.get_ident()
        if not depth:
            with self._changed:
                self._waiting += 1
                try:
                    self._changed.wait_for(lambda: self._writer is None and not self._readers)
                    self._writer = me
                finally:
                    self._waiting -= 1
        elif self._writer != me:
            raise RuntimeError("This thread is reading the model, so it cannot change the model now.")
        self._held.depth = depth + 1
        try:
            yield
        finally:
            self._held.depth = depth
            if not depth:
                with self._changed:
                    self._writer = None
                    self._changed.notify_all()


# Not stored in the models, which therefore can be copied and pickled.
_locks: WeakKeyDictionary[Any, ReadWriteLock] = WeakKeyDictionary()
_making = threading.Lock()


def lock_of(model: Any) -> ReadWriteLock:
    """Return the lock of a model."""
    lock = _locks.get(model)
    if lock is None:
        with _making:
            lock = _locks.setdefault(model, ReadWriteLock())
    return lock


# Methods that many threads may call at once. All other public methods need exclusive access.
_READS = {
    *("predict", "decision_function", "membership", "judge", "nearest_classes"),
    *("predict_proba", "predict_log_proba", "log_density"),
}

_with_lock: WeakSet[Callable[..., Any]] = WeakSet()

K = TypeVar("K", bound=type)


def thread_safe(kind: K) -> K:
    """Class decorator that puts a read-write lock around every public method, including inherited ones.

    Properties and scikit-learn's own methods take no lock.

    A recognizer may compute lazily what predictions read. It then has a method `_is_ready`, and if that
    returns False, `_make_ready` is called with exclusive access before the prediction.
    """
    for name, method in _public_methods(kind):
        if method not in _with_lock and not method.__module__.startswith("sklearn."):
            locked = _shared(method) if name in _READS else _exclusive(method)
            _with_lock.add(locked)  # so that a decorated subclass does not wrap it again
            setattr(kind, name, locked)
    return kind


def _public_methods(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in dir(kind):
        method = getattr(kind, name, None)
        if isinstance(method, FunctionType) and (not name.startswith("_") or name == "__add__"):
            yield name, method


def _exclusive(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def alone(self: Any, *args: Any, **options: Any) -> Any:
        with lock_of(self).exclusive():
            return method(self, *args, **options)

    return alone


def _shared(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def together(self: Any, *args: Any, **options: Any) -> Any:
        lock, is_ready = lock_of(self), getattr(self, "_is_ready", lambda: True)
        while True:
            with lock.shared():
                if is_ready():
                    return method(self, *args, **options)
            with lock.exclusive():
                self._make_ready()

    return together
