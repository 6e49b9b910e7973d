"""How many threads linear algebra uses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

_lock = threading.Lock()
_limits: list[threadpool_limits] = []
_users = 0


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS use one thread in the whole process, until the last of those who asked for it is done.

    The last bit of a factorization depends on the number of threads; and threads that wait for each other's
    share of small work cost several times that work.
    """
    global _users
    with _lock:
        _users += 1
        if _users == 1:
            _limits.append(threadpool_limits(1, "blas"))
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                _limits.pop().restore_original_limits()
