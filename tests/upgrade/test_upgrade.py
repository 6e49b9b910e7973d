"""What the previous release wrote is opened, migrated and answers the same.

The folder of a release holds model files, a database with events of many kinds, and the answers of then.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import openworld
from openworld.service.app import create_app
from openworld.service.settings import ServiceSettings
from openworld.service.world import World

RELEASES = sorted(path for path in Path(__file__).parent.iterdir() if (path / "expected.json").exists())


@pytest.fixture(params=RELEASES, ids=lambda path: path.name)
def release(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.param
    return folder


@pytest.fixture
def expected(release: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((release / "expected.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("name", ["openworld", "nno"])
def test_model_files(release: Path, expected: dict[str, Any], name: str) -> None:
    model = openworld.load(release / f"{name}.ow")
    assert model.predict(expected["probe"]).tolist() == expected[name]


def test_database(release: Path, expected: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "world.db").write_bytes(gzip.decompress((release / "world.db.gz").read_bytes()))
    with (
        World.open(f"sqlite:///{tmp_path}/world.db") as world,
        TestClient(create_app(world, ServiceSettings()), base_url="http://127.0.0.1:8000") as client,
    ):
        headers = {"Authorization": f"Bearer {world.keys.create('tester', 'admin')}"}
        answer = client.post(
            "/v1/recognize", json={"vectors": expected["probe"], "remember": False}, headers=headers
        ).json()
        assert answer["model_version"] == expected["version"]
        assert [str(one["label"]) for one in answer["answers"]] == expected["database"]
        classes = client.get("/v1/classes", headers=headers).json()
        assert {one["label"]: one["count"] for one in classes} == expected["classes"]
        events = client.get("/v1/history", headers=headers).json()
        assert [event["kind"] for event in reversed(events)] == expected["events"]
        undone = client.post("/v1/undo", json={"event_id": events[-1]["id"]}, headers=headers)
        assert undone.status_code == 200, undone.text
