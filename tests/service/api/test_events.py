from __future__ import annotations

import json

import httpx

from openworld.service.api import events


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
