"""Metrics of the service, for Prometheus and for the dashboard, and a test for drift."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from math import log
from time import time
from typing import Literal

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from scipy.stats import binomtest

from openworld.service.recognition import RecognitionResult
from openworld.service.world import World

_LATENCIES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_DECISIONS = (-1.0, -0.5, -0.2, -0.1, -0.05, -0.02, 0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_PERIOD_SECONDS = 10
_PERIODS_KEPT = 6 * 60 * 6
_LATENCIES_KEPT = 2000
_BASELINE_SAMPLES = 300
_CONFIDENCE = 0.99
_ODDS = 2.0  # the change that is detected soonest: twice, or half, the usual odds
_ALARM = log(100_000)  # at least this many samples between two false alarms on average


@dataclass
class Period:
    """Ten seconds of the service. Latencies are in seconds; `decision` is the mean without imported samples.

    `latency_*` are those of all requests, `recognition_*` those of requests to recognize only.
    """

    at: float
    samples: int = 0
    unknown: int = 0
    imported: int = 0
    decision: float = 0.0
    requests: int = 0
    failed: int = 0
    latency_p50: float = 0.0
    latency_p99: float = 0.0
    recognition_p50: float = 0.0
    recognition_p99: float = 0.0
    model_version: int = 0
    latencies: list[float] = field(default_factory=list, repr=False)
    recognition_latencies: list[float] = field(default_factory=list, repr=False)

    @property
    def not_imported(self) -> int:
        """The number of samples that came in as they arose."""
        return self.samples - self.imported

    def finish(self) -> None:
        """Compute the percentiles and drop the single values."""
        if self.latencies:
            self.latency_p50, self.latency_p99 = np.percentile(self.latencies, [50, 99]).tolist()
        if self.recognition_latencies:
            values = np.percentile(self.recognition_latencies, [50, 99])
            self.recognition_p50, self.recognition_p99 = values.tolist()
        self.latencies.clear()
        self.recognition_latencies.clear()


class Metrics:
    """Metrics of one process; with several workers, Prometheus gets the sum over all.

    The library sums them if PROMETHEUS_MULTIPROC_DIR names a folder; the server sets this variable.

    Parameters
    ----------
    world : World
    clock : callable
        Returns seconds since 1970.
    """

    def __init__(self, world: World, clock: Callable[[], float] = time) -> None:
        self._world, self._clock = world, clock
        self._registry = CollectorRegistry()
        self._lock = threading.Lock()
        self._periods: deque[Period] = deque(maxlen=_PERIODS_KEPT)
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._usual: float | None = None  # the mean decision in the long run
        self._drift_test = DriftTest()
        self._requests = Counter(
            "openworld_requests", "Requests.", ("method", "route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "openworld_request_seconds", "Latency.", ("route",), buckets=_LATENCIES, registry=self._registry
        )
        self._samples = Counter(
            "openworld_samples", "Samples recognized.", ("answer",), registry=self._registry
        )
        self._decisions = Histogram(
            "openworld_decision", "Decision, positive: known.", buckets=_DECISIONS, registry=self._registry
        )
        self._drift = self._gauge(
            "openworld_decision_drift", "Mean decision of the latest samples minus the long-run mean."
        )
        self._alarm = self._gauge(
            "openworld_drift_alarm", "1: more unknown samples than usual, -1: fewer, 0: as usual."
        )
        self._share = self._gauge("openworld_unknown_share", "Share of unknown in the latest samples.")
        self._pool = self._gauge("openworld_pool_samples", "Stored samples.", ("state",))
        self._version = self._gauge("openworld_model_version", "Version in force.")
        self._classes = self._gauge("openworld_classes", "Known classes.")
        self._quality = self._gauge(
            "openworld_estimate",
            "Estimate from random samples that people reviewed, and its 95 % interval.",
            ("of", "bound"),
        )

    def _gauge(self, name: str, what: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(name, what, labels, registry=self._registry, multiprocess_mode="mostrecent")

    def answered(self, answers: RecognitionResult) -> None:
        """Count the answers to samples that come in as they arise."""
        n_unknown, mean = self._count(answers)
        with self._lock:
            period = self._now()
            period.samples += len(answers)
            period.unknown += n_unknown
            period.decision += (mean - period.decision) * len(answers) / period.not_imported
            period.model_version = answers.model_version
            weight = min(1.0, len(answers) / 10_000) if self._usual is not None else 1.0
            usual = self._usual if self._usual is not None else mean
            self._usual = usual + weight * (mean - usual)
            self._drift_test.add(n_unknown, len(answers), answers.model_version, self._clock())

    def imported(self, answers: RecognitionResult) -> None:
        """Count the answers to imported samples, which say nothing about drift: their order is not random."""
        n_unknown, _ = self._count(answers)
        with self._lock:
            period = self._now()
            period.samples += len(answers)
            period.imported += len(answers)
            period.unknown += n_unknown
            period.model_version = answers.model_version

    def _count(self, answers: RecognitionResult) -> tuple[int, float]:
        """Add answers to the totals; return the number of unknown samples and the mean decision."""
        n_unknown, mean = answers.labels.count(None), float(answers.judgement.decision.mean())
        self._samples.labels("unknown").inc(n_unknown)
        self._samples.labels("known").inc(len(answers) - n_unknown)
        self._decisions.observe(mean)
        return n_unknown, mean

    def requested(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        which = method, route, status
        if which not in self._children:  # looking them up each time takes longer than counting
            self._children[which] = self._requests.labels(*which), self._seconds.labels(route)
        requests, latencies = self._children[which]
        requests.inc()
        latencies.observe(seconds)
        with self._lock:
            period = self._now()
            period.requests += 1
            period.failed += status >= 500
            # A stream of events lasts as long as a page is open.
            if len(period.latencies) < _LATENCIES_KEPT and route != "/v1/events":
                period.latencies.append(seconds)
                if route.startswith("/v1/recognize"):
                    period.recognition_latencies.append(seconds)

    def periods(self, n: int) -> list[Period]:
        """Return the last periods, oldest first."""
        with self._lock:
            current = deepcopy(self._now())
            current.finish()
            return [*list(self._periods)[-n:-1], current]

    def drift(self) -> Drift:
        """Return whether the share of unknown samples has changed."""
        with self._lock:
            return self._drift_test.result(self._world.model.version)

    def exposition(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        progress = self._world.labels.progress("")
        for state in ("pending", "recognized", "labeled", "dismissed"):
            self._pool.labels(state).set(getattr(progress, state))
        self._version.set(self._world.model.version)
        self._classes.set(len(self._world.classes.all()))
        overall, *_ = self._world.recognized.quality()
        for name, share in (("accuracy", overall.right), ("wrong_accepts", overall.wrong_accepts)):
            self._quality.labels(name, "low").set(share.low)
            self._quality.labels(name, "high").set(share.high)
        self._alarm.set({"more": 1, "fewer": -1}.get(self.drift().direction or "", 0))
        with self._lock:
            latest = list(self._periods)[-6:]
            n_samples = sum(period.samples for period in latest)
            n_not_imported = sum(period.not_imported for period in latest)
            if n_not_imported and self._usual is not None:
                mean = sum(period.decision * period.not_imported for period in latest) / n_not_imported
                self._drift.set(mean - self._usual)
            if n_samples:
                self._share.set(sum(period.unknown for period in latest) / n_samples)
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self._registry)
        of_all_workers = CollectorRegistry()
        MultiProcessCollector(of_all_workers)  # type: ignore[no-untyped-call]
        return generate_latest(of_all_workers)

    def _now(self) -> Period:
        """Return the current period; finish the one before when a new one begins."""
        at = self._clock() // _PERIOD_SECONDS * _PERIOD_SECONDS
        if not self._periods or self._periods[-1].at != at:
            if self._periods:
                self._periods[-1].finish()
            self._periods.append(Period(at))
        return self._periods[-1]


# -- drift ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drift:
    """The current result of the test.

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

    The first samples of a version set the usual share; a new version answers differently, so it starts over.
    Each test adds up the log likelihood ratio of doubled or halved odds against the usual ones, never below
    0, and raises the alarm at log(100,000): on average 100,000 samples or more pass between false alarms
    (Lorden, 1971). The usual share is an estimate, so the test uses the end of its 99 % interval that is
    nearer to the change. The alarm ends when the sum is back at 0.
    """

    def __init__(self) -> None:
        self._restart(-1)

    def _restart(self, version: int) -> None:
        self._version, self._n, self._n_unknown = version, 0, 0
        self._tests: list[_Cusum] = []
        self._since: float | None = None

    def add(self, n_unknown: int, n: int, version: int, at: float) -> None:
        """Add the answers to n samples, given by a version at a time."""
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

    def result(self, version: int) -> Drift:
        """Return the current result, empty for a version that the test has seen no samples of."""
        if not self._tests or version != self._version:
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
