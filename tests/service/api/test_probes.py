from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families


def test_health_and_readiness(client, world):
    assert client.get("/health").json()["status"] == "ok"
    assert client.get("/ready").json() == {"status": "ok", "model_version": 0}


def test_readiness_when_the_database_is_away(client, world, monkeypatch):
    def away():
        raise OSError("gone")

    monkeypatch.setattr(world, "check", away)
    assert client.get("/ready").status_code == 503
    assert client.get("/health").status_code == 200


def _values(text: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics(client, unknown, things):
    client.post("/v1/recognize", json={"vectors": things(0, 2).tolist()})
    client.get("/v1/samples/99")
    client.get("/no/such/path")
    found = _values(client.get("/metrics").text)
    assert found["openworld_samples_total", "unknown"] == 6
    assert found["openworld_samples_total", "known"] == 2
    assert found["openworld_requests_total", "POST", "/v1/recognize", "200"] == 2
    assert found["openworld_requests_total", "GET", "/v1/samples/{sample_id}", "404"] == 1
    assert found["openworld_requests_total", "GET", "other", "404"] == 1
    assert found["openworld_pool_samples", "pending"] == 6
    assert found["openworld_model_version",] == 0
    assert found["openworld_classes",] == 3
    assert found["openworld_unknown_share",] == pytest.approx(6 / 8)
    periods = client.get("/v1/statistics", params={"periods": 10}).json()  # some may have ended meanwhile
    assert sum(period["samples"] for period in periods) == 8
    assert sum(period["unknown"] for period in periods) == 6
