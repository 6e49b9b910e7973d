"""How many threads linear algebra uses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy.linalg  # noqa: F401 -- loads numpy's BLAS
import scipy.linalg  # noqa: F401 -- and scipy's
from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_limits: list[Any] = []  # one for each who asked; the first one restores


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let the BLAS of numpy and scipy use one thread, until the last of those who asked for it is done.

    The last bit of a factorization depends on the number of threads; and threads that wait for each other's
    share of small work cost several times that work.
    """
    with _lock:
        _limits.append(None if _limits else _libraries().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            # Whoever comes last restores: the limit that was set is the first one in the list.
            if len(_limits) == 1:
                _limits[0].restore_original_limits()
                _limits.clear()
            else:
                _limits.pop()


@cache
def _libraries() -> ThreadpoolController:
    """Return the libraries loaded now; looking for them takes milliseconds."""
    return ThreadpoolController()
