"""Routes of keys and probes, and the page of people."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families


def test_admins_make_and_revoke_keys(client: TestClient) -> None:
    assert "There is no key yet" in client.get("/people").text
    refused = client.post("/v1/keys", json={"name": "bob", "role": "labeler"})
    assert (refused.status_code, "first key must have the role admin" in refused.json()["detail"]) == (
        409,
        True,
    )
    made = client.post("/v1/keys", json={"name": "ann", "role": "admin"}).json()
    assert (made["name"], made["role"]) == ("ann", "admin")
    ann = {"Authorization": f"Bearer {made['key']}"}
    bob = client.post("/v1/keys", json={"name": "bob"}, headers=ann).json()
    assert bob["role"] == "labeler"
    assert client.post("/v1/keys", json={"name": "bob"}, headers=ann).status_code == 409
    as_bob = {"Authorization": f"Bearer {bob['key']}"}
    for path in ("/v1/keys", "/people"):
        assert client.get(path, headers=as_bob).status_code == 403
    listed = client.get("/v1/keys", headers=ann)
    assert [key["name"] for key in listed.json()] == ["ann", "bob"]
    assert made["key"] not in listed.text
    assert bob["key"] not in client.get("/people", headers=ann).text

    assert client.delete("/v1/keys/bob", headers=ann).status_code == 204
    assert client.delete("/v1/keys/bob", headers=ann).status_code == 404
    last = client.delete("/v1/keys/ann", headers=ann)
    assert (last.status_code, "last key of an admin" in last.json()["detail"]) == (409, True)
    assert [key["revoked_at"] is None for key in client.get("/v1/keys", headers=ann).json()] == [True, False]


def test_a_name_is_asked_for_at_the_first_visit(client: TestClient) -> None:
    assert 'id="who"' in client.get("/").text
    assert client.post("/v1/session", json={"name": "Ann"}).status_code == 200
    assert 'id="who"' not in client.get("/").text


# -- health and metrics ---------------------------------------------------------------------------


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
