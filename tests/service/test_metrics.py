"""Metrics, and the test for drift of the share of unknown samples."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from openworld.recognition import Judgement
from openworld.service.metrics import Drift, DriftTest, Metrics
from openworld.service.recognition import RecognitionResult


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'world.db'}"


def _values(text: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _answers(decisions: list[float]) -> RecognitionResult:
    labels = ["a" if value > 0 else None for value in decisions]
    decision, none = np.array(decisions), np.zeros((len(labels), 0))
    judged = Judgement(np.array(labels), decision > 0, decision, np.zeros(len(labels)), none, none, none, 1.0)
    return RecognitionResult(judged, labels, [None] * len(labels), 7)


def test_periods_and_drift(world):
    clock = SimpleNamespace(now=1000.0)
    metrics = Metrics(world, lambda: clock.now)
    metrics.answered(_answers([0.5, 0.5, 0.5]))
    for seconds in (0.1, 0.2, 0.3):
        metrics.requested("GET", "/x", 200, seconds)
    metrics.requested("GET", "/x", 500, 0.4)
    clock.now = 1011.0
    metrics.answered(_answers([-0.5]))
    first, second = metrics.periods(10)
    assert (first.at, first.samples, first.unknown, first.decision) == (1000, 3, 0, 0.5)
    assert (first.requests, first.failed, first.model_version) == (4, 1, 7)
    assert first.latency_p50 == pytest.approx(0.25)
    assert (second.at, second.samples, second.unknown, second.decision) == (1010, 1, 1, -0.5)
    found = _values(metrics.exposition().decode())
    assert found["openworld_unknown_share",] == 0.25
    assert found["openworld_decision_drift",] == pytest.approx(0.25 - 0.4999)


def test_imported_samples_are_counted_but_say_nothing_about_drift(world):
    metrics = Metrics(world, lambda: 1000.0)
    metrics.answered(_answers([0.5, 0.5]))
    for _ in range(400):
        metrics.imported(_answers([0.5]))
    for _ in range(400):
        metrics.imported(_answers([-0.5]))
    (period,) = metrics.periods(1)
    assert (period.samples, period.unknown, period.imported, period.decision) == (802, 400, 800, 0.5)
    assert metrics._drift_test.result(7) == Drift()
    found = _values(metrics.exposition().decode())
    assert found["openworld_drift_alarm",] == found["openworld_decision_drift",] == 0
    assert found["openworld_samples_total", "unknown"] == 400


# -- drift ----------------------------------------------------------------------------------------


def _fed(*shares: tuple[float, int], seed: int = 0, version: int = 1) -> DriftTest:
    """Return a test that has seen so many samples with each share of unknown, one by one."""
    random, test = np.random.default_rng(seed), DriftTest()
    for share, n in shares:
        for i, unknown in enumerate(random.random(n) < share):
            test.add(int(unknown), 1, version, float(i))
    return test


def test_nothing_is_said_before_the_usual_share_is_known() -> None:
    assert _fed((0.2, 299)).result(1) == Drift()
    assert _fed((0.2, 300)).result(1).usual == pytest.approx(0.2, abs=0.08)


def test_false_alarms_are_rare() -> None:
    # 40 runs of 2,500 samples are 100,000: one false alarm is expected at most.
    runs = [(share, seed) for share in (0.05, 0.3) for seed in range(20)]
    alarms = [_fed((share, 2800), seed=seed).result(1).direction for share, seed in runs]
    assert len(alarms) - alarms.count(None) <= 2


@pytest.mark.parametrize(("after", "direction"), [(0.5, "more"), (0.02, "fewer")])
def test_a_change_raises_the_alarm_that_ends_with_it(after: float, direction: str) -> None:
    changed = _fed((0.2, 1000), (after, 400)).result(1)
    assert (changed.direction, changed.evidence) == (direction, 1.0)
    assert changed.since is not None
    assert 0 < changed.since < 400
    assert _fed((0.2, 1000), (after, 400), (0.2, 3000)).result(1).direction is None


def test_a_new_version_starts_again() -> None:
    test = _fed((0.2, 1000), (0.6, 300))
    assert test.result(1).direction == "more"
    assert test.result(2) == Drift()  # before its first sample
    test.add(1, 1, 2, 0.0)
    assert test.result(2) == Drift()
