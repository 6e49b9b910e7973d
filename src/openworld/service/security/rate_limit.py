"""How many requests someone may make: a bucket of tokens that fills at a steady rate."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic

_MOST_NAMES = 10_000


class RateLimit:
    """A bucket for each name.

    Parameters
    ----------
    rate : float
        Requests a second in the long run; 0 for no limit.
    burst : float
        Requests at once, after a pause.
    clock : callable
        Returns seconds.
    """

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: dict[str, tuple[float, float]] = {}  # name -> tokens, and when they were counted
        self._lock = threading.Lock()

    def wait_for(self, name: str) -> float:
        """Take a token; return 0, or the seconds until there is one."""
        if not self._rate:
            return 0.0
        now = self._clock()
        with self._lock:
            tokens, before = self._buckets.get(name, (self._burst, now))
            tokens = min(self._burst, tokens + (now - before) * self._rate)
            if tokens < 1:
                return (1 - tokens) / self._rate
            if len(self._buckets) >= _MOST_NAMES:  # full buckets need not be remembered
                self._buckets.clear()
            self._buckets[name] = tokens - 1, now
            return 0.0
