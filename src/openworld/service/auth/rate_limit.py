"""Rate limit: a token bucket for each name.

By hand: `limits` has windows but no token bucket (a burst after a pause, then a steady rate), and a hit of
its in-memory storage takes several times as long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic

_MAX_NAMES = 10_000


class RateLimit:
    """Token buckets that fill at a steady rate; the one unused for longest is forgotten first.

    Parameters
    ----------
    rate : float
        Requests per second in the long run; 0 for no limit.
    burst : float
        Requests at once, after a pause.
    clock : callable
        Returns seconds.
    """

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: dict[str, tuple[float, float]] = {}  # name -> tokens, when counted; oldest first
        self._lock = threading.Lock()

    def wait_for(self, name: str) -> float:
        """Take a token; return 0, or the seconds until there is one."""
        if not self._rate:
            return 0.0
        now = self._clock()
        with self._lock:
            tokens, before = self._buckets.pop(name, (self._burst, now))
            tokens = min(self._burst, tokens + (now - before) * self._rate)
            if len(self._buckets) >= _MAX_NAMES:
                del self._buckets[next(iter(self._buckets))]
            self._buckets[name] = tokens - (tokens >= 1), now
            return 0.0 if tokens >= 1 else (1 - tokens) / self._rate
