from __future__ import annotations

import io
import json
import threading
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from openworld.recognition import Judgement
from openworld.service.api import events
from openworld.service.metrics import Metrics
from openworld.service.recognition import Answers


def test_events_come_as_they_happen(live, world, monkeypatch):
    with httpx.stream("GET", f"{live}/v1/events", timeout=20) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.iter_lines()
        assert next(lines) == "retry: 2000"
        httpx.post(f"{live}/v1/recognize", json={"vectors": [[90, 90, 0, 0]]})
        found = {}
        for line in lines:
            name, _, value = line.partition(": ")
            found[name] = value
            if "data" in found and not line:
                break
    assert found["event"] == "unknown"
    assert json.loads(found["data"]) == {"samples": 1}


def test_silence_is_broken_and_one_who_leaves_is_forgotten(serving, monkeypatch):
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.01)
    with serving() as client:
        service = client.app.state.service

        async def listen() -> list[bytes]:
            stream = events._stream(service)
            parts = [await anext(stream) for _ in range(3)]
            assert len(service.broadcast._listeners) == 1
            await stream.aclose()
            assert not service.broadcast._listeners
            return parts

        assert client.portal.call(listen)[1:] == [b": still here\n\n"] * 2


def test_streams_end_when_the_service_does(serving):
    with serving() as client:
        service = client.app.state.service

        async def listen() -> int:
            stream = events._stream(service)
            await anext(stream)
            service.broadcast.close()
            return len([part async for part in stream])

        assert client.portal.call(listen) == 0


def test_health_and_readiness(client, world):
    assert client.get("/health").json()["status"] == "ok"
    assert client.get("/ready").json() == {"status": "ok", "model_version": 0}


def test_readiness_when_the_database_is_away(client, world, monkeypatch):
    def away(**_):
        raise OSError("gone")

    monkeypatch.setattr(world.history, "versions", away)
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


def test_requests_at_once_share_a_product_and_not_their_errors(serving, world, things, monkeypatch):
    sizes = []
    real, started, go_on = world.recognize, threading.Event(), threading.Event()

    def recognize(X, *args, **kwargs):
        sizes.append(len(X))
        started.set()
        go_on.wait(10)
        return real(X, *args, **kwargs)

    monkeypatch.setattr(world, "recognize", recognize)
    with serving() as client:
        batcher = client.app.state.service.batcher

        async def ask() -> list[object]:
            import asyncio

            first = asyncio.ensure_future(batcher.recognize(things(0), remember=False))
            while not started.is_set():
                await asyncio.sleep(0.001)
            rows = [things(kind, 2) for kind in (0, 1, 2)]
            bad = np.full((1, 4), np.nan, dtype=np.float32)
            asked = [batcher.recognize(X, remember=False) for X in (*rows, bad, things(1).astype(float))]
            rest = asyncio.gather(*asked, return_exceptions=True)
            await asyncio.sleep(0)
            go_on.set()
            return [await first, *await rest]

        first, a, b, c, bad, wide = client.portal.call(ask)
    labels = [[row["label"] for row in json.loads(reply)["answers"]] for reply in (first, a, b, c, wide)]
    assert labels == [["a"], ["a", "a"], ["b", "b"], ["c", "c"], ["b"]]
    assert "NaN" in str(bad)
    assert sizes[:2] == [1, 7]  # the ones that waited went together
    assert sizes[2:] == [2, 2, 2, 1, 1]  # then one by one, to find the culprit; float64 by itself


def test_logs_are_lines_of_json(client, monkeypatch):
    import logging

    import structlog

    from openworld.service.logging import set_up_logging

    before, config = logging.getLogger().handlers[:], structlog.get_config()
    level, stream = logging.getLogger().level, io.StringIO()
    try:
        monkeypatch.setattr("sys.stderr", stream)
        set_up_logging("info", "json")
        client.get("/v1/samples/99?secret=1")
        client.get("/health")
        logging.getLogger("a.library").warning("by %s", "hand")
    finally:
        logging.getLogger().handlers[:] = before
        logging.getLogger().setLevel(level)
        structlog.configure(**config)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    ours = [line for line in lines if line["event"] == "request"]
    assert [(line["path"], line["status"], line["level"]) for line in ours] == [
        ("/v1/samples/99", 404, "warning")
    ]
    assert lines[-1]["event"] == "by hand"
