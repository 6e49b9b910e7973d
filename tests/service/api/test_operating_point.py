"""GET and PATCH /v1/operating-point."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from openworld.service.world import World


def test_the_operating_point_is_previewed_moved_and_undone(
    serving: Callable[..., Any], models: Callable[[str], Any], things: Callable[..., Any], tmp_path: Path
) -> None:
    with World.open(f"sqlite:///{tmp_path / 'other.db'}", models("0")) as world, serving(world) as client:
        world.recognize(things(5, 3))
        path = "/v1/operating-point"
        assert client.get(path).json()["objective"] == "error"
        preview = client.get(path, params={"preview": "far=0.1"}).json()["preview"]
        assert (preview["objective"], preview["pending"]) == ("far=0.1", 3)
        outcome = client.patch(path, json={"objective": "far=0.1"}).json()
        assert (outcome["kind"], outcome["model_version"]) == ("objective", 1)
        assert client.get(path).json()["threshold"] == preview["threshold"]
        assert client.post("/v1/undo", json={}).json()["model_version"] == 2
        assert client.get(path).json()["objective"] == "error"
        answer = client.patch(path, json={"objective": "best"})
        assert (answer.status_code, "recall=0.95" in answer.json()["detail"]) == (422, True)


def test_a_model_with_a_fixed_threshold_is_a_conflict(client: TestClient) -> None:
    assert client.get("/v1/operating-point").json()["objective"] is None
    assert client.patch("/v1/operating-point", json={"objective": "error"}).status_code == 409
