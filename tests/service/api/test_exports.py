"""Routes of exports."""

from __future__ import annotations

import io
import json

import numpy as np

import openworld


def test_exports(client, unknown, world, tmp_path):
    client.post("/v1/label", json={"sample_ids": unknown[:3], "label": "fünf"})
    lines = client.get("/v1/export/labeled").text.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["label"] for row in rows] == ["fünf"] * 3
    np.testing.assert_array_equal([row["feature"] for row in rows], world.pool.features(unknown[:3]))
    data = np.load(io.BytesIO(client.get("/v1/export/labeled", params={"format": "npz"}).content))
    np.testing.assert_array_equal(data["X"], world.pool.features(unknown[:3]))
    assert data["y"].tolist() == ["fünf"] * 3
    assert data["ids"].tolist() == unknown[:3]
    (event,) = [json.loads(line) for line in client.get("/v1/export/log").text.splitlines()]
    assert (event["kind"], event["who"], event["payload"]["label"]) == ("label", "local", "fünf")
    path = tmp_path / "model.ow"
    path.write_bytes(client.get("/v1/export/model").content)
    assert "fünf" in openworld.load(path).classes_
    assert client.get("/v1/export/labeled", params={"format": "pickle"}).status_code == 422
