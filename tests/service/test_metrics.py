from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from openworld.recognition import Judgement
from openworld.service.metrics import Metrics
from openworld.service.recognition import Answers


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'world.db'}"


def _values(text: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _answers(decisions: list[float]) -> Answers:
    labels = ["a" if value > 0 else None for value in decisions]
    decision, none = np.array(decisions), np.zeros((len(labels), 0))
    judged = Judgement(np.array(labels), decision > 0, decision, np.zeros(len(labels)), none, none, none, 1.0)
    return Answers(judged, labels, [None] * len(labels), 7)


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
