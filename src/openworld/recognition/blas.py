"""The number of BLAS threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy.linalg  # noqa: F401 -- loads numpy's BLAS
import scipy.linalg  # noqa: F401 -- and scipy's
from threadpoolctl import ThreadpoolController

_SETTINGS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_lock = threading.Lock()
_limits: list[Any] = []  # one for each who asked; the first one restores


def limit_blas_threads() -> None:
    """Let BLAS use one thread in this process and in those it starts, unless the environment sets a number.

    For a server: its threads work side by side, and several threads of BLAS for each would wait for each
    other.
    """
    if not any(name in os.environ for name in _SETTINGS):
        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # for libraries that are loaded later, and for workers
        _libraries().limit(limits=1, user_api="blas")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let the BLAS of numpy and scipy use one thread, until the last of those who asked for it is done.

    The last bit of a product depends on the number of threads, and small work takes several threads longer
    than one. The number belongs to the whole process. `threadpool_limits` would restore a wrong one where
    two threads of Python use it and the first to begin is the first to end.
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
