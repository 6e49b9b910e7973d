"""Drift of the share of unknown samples, by a sequential test that says when it has changed."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Literal

from scipy.stats import binomtest

_BASELINE_SAMPLES = 300
_CONFIDENCE = 0.99
_ODDS = 2.0  # the change that is found soonest: twice, or half, the usual odds
_ALARM = log(100_000)  # so many samples, at least, between two false alarms on average


@dataclass(frozen=True)
class Drift:
    """What the test says now.

    Attributes
    ----------
    usual : float or None
        The share of unknown among the first samples of this version; None while there are too few.
    evidence : float
        From 0 to 1, where the alarm is raised.
    direction : {"more", "fewer"} or None
        Whether there are more or fewer unknown samples than usual; None without an alarm.
    since : float or None
        When the alarm was raised, in seconds since 1970.
    """

    usual: float | None = None
    evidence: float = 0.0
    direction: Literal["more", "fewer"] | None = None
    since: float | None = None


class DriftTest:
    """Two one-sided CUSUM tests (Page, 1954) on whether a sample is unknown, for a rise and for a fall.

    The first samples of a version say what is usual; a new version starts again, as it answers otherwise.
    Each test adds up the log likelihood ratio of doubled or halved odds against the usual ones, never below
    0, and raises the alarm at log(100,000): on average 100,000 samples or more pass between false alarms
    (Lorden, 1971). As the usual share is an estimate, the end of its 99 % interval that is nearer to the
    change stands for it. The alarm ends when the sum is back at 0.
    """

    def __init__(self) -> None:
        self._restart(-1)

    def _restart(self, version: int) -> None:
        self._version, self._n, self._n_unknown = version, 0, 0
        self._tests: list[_Cusum] = []
        self._since: float | None = None

    def add(self, n_unknown: int, n: int, version: int, at: float) -> None:
        """Take in the answers to n samples, given by a version at a time."""
        if version != self._version:
            self._restart(version)
        if not self._tests:
            self._n, self._n_unknown = self._n + n, self._n_unknown + n_unknown
            if self._n >= _BASELINE_SAMPLES:
                interval = binomtest(self._n_unknown, self._n).proportion_ci(_CONFIDENCE, "wilson")
                self._tests = [_Cusum(interval.high, _ODDS), _Cusum(interval.low, 1 / _ODDS)]
            return
        for test in self._tests:
            test.add(n_unknown, n)
        alarmed = any(test.alarmed for test in self._tests)
        self._since = (self._since or at) if alarmed else None

    @property
    def result(self) -> Drift:
        """What the test says now."""
        if not self._tests:
            return Drift()
        usual, (rise, fall) = self._n_unknown / self._n, self._tests
        evidence = min(max(rise.total, fall.total) / _ALARM, 1.0)
        if self._since is None:
            return Drift(usual, evidence)
        return Drift(usual, evidence, "more" if rise.alarmed else "fewer", self._since)


class _Cusum:
    """A test for odds that are multiplied by a factor."""

    def __init__(self, share: float, factor: float) -> None:
        before = min(max(share, 1e-4), 1 - 1e-4)
        odds = factor * before / (1 - before)
        after = odds / (1 + odds)
        self._if_unknown, self._if_known = log(after / before), log((1 - after) / (1 - before))
        self.total, self.alarmed = 0.0, False

    def add(self, n_unknown: int, n: int) -> None:
        """Add the samples of a request; their order is not known, so they count as a whole."""
        change = n_unknown * self._if_unknown + (n - n_unknown) * self._if_known
        self.total = min(max(self.total + change, 0.0), 2 * _ALARM)  # so that it can end soon enough
        self.alarmed = self.total >= _ALARM or (self.alarmed and self.total > 0)
