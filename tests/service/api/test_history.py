"""Routes of the history, and notifications."""

from __future__ import annotations

import json

import httpx
from fastapi import Request

from openworld.service.api import history


def test_versions_are_compared_and_activated(client, unknown):
    client.post("/v1/label", json={"sample_ids": unknown[:3], "label": "five"})
    assert [version["id"] for version in client.get("/v1/versions").json()] == [1, 0]
    compared = client.get("/v1/versions/compare", params={"a": 0, "b": 1}).json()
    assert (compared["added"], compared["removed"], compared["same"]) == (["five"], [], False)
    assert client.get("/v1/versions/compare", params={"a": 0, "b": 7}).status_code == 404
    assert client.post("/v1/versions/0/activate").json()["model_version"] == 2
    assert client.get("/v1/versions/compare", params={"a": 0, "b": 2}).json()["same"]


# -- notifications --------------------------------------------------------------------------------


def test_events_come_as_they_happen(live, world, monkeypatch):
    with httpx.stream("GET", f"{live}/v1/events", timeout=20) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.iter_lines()
        assert next(lines) == "retry: 2000"
        httpx.post(f"{live}/v1/recognize", json={"vectors": [[90, 90, 0, 0]]}, timeout=300)
        found = {}
        for line in lines:
            name, _, value = line.partition(": ")
            found[name] = value
            if "data" in found and not line:
                break
    assert found["event"] == "unknown"
    assert json.loads(found["data"]) == {"samples": 1}


def test_silence_is_broken_and_one_who_leaves_is_forgotten(serving, monkeypatch):
    monkeypatch.setattr(history, "HEARTBEAT_SECONDS", 0.01)
    with serving() as client:
        service = client.app.state.service

        async def listen() -> list[bytes]:
            stream = history._stream(service, request_with(None))
            parts = [await anext(stream) for _ in range(3)]
            assert len(service.broadcast._listeners) == 1
            await stream.aclose()
            assert not service.broadcast._listeners
            return parts

        assert client.portal.call(listen)[1:] == [b": still here\n\n"] * 2


def request_with(key: str | None) -> Request:
    headers = [] if key is None else [(b"authorization", f"Bearer {key}".encode())]
    return Request({"type": "http", "headers": headers, "client": ("127.0.0.1", 5000)})


def test_a_revoked_key_ends_its_stream(serving, world, monkeypatch):
    """At the next heartbeat, which comes even where events never stop."""
    monkeypatch.setattr(history, "HEARTBEAT_SECONDS", 0.01)
    key = world.keys.create("ann", "viewer")
    with serving() as client:
        service = client.app.state.service

        async def listen() -> int:
            stream = history._stream(service, request_with(key))
            assert (await anext(stream)).startswith(b"retry")
            assert await anext(stream) == b": still here\n\n"
            world.keys.revoke("ann")
            service.auth._cache.clear()  # as five seconds do
            world.notifications.publish("unknown", {"samples": 1})
            n_parts = 0
            async for _ in stream:
                n_parts += 1
                world.notifications.publish("unknown", {"samples": 1})
                assert n_parts < 10_000
            return n_parts

        assert client.portal.call(listen) < 10_000


def test_streams_end_when_the_service_does(serving):
    with serving() as client:
        service = client.app.state.service

        async def listen() -> int:
            stream = history._stream(service, request_with(None))
            await anext(stream)
            service.broadcast.close()
            return len([part async for part in stream])

        assert client.portal.call(listen) == 0
