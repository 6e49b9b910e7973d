from __future__ import annotations

import io
import json

import numpy as np
import pytest

import openworld
from openworld.service.results import ClusterDraft


def test_from_unknown_to_known_and_back(client, unknown, things):
    preview = client.post("/v1/preview", json={"sample_ids": unknown[:3], "label": "five"}).json()
    assert (preview["new_class"], preview["samples"]) == (True, 3)
    labelled = client.post("/v1/label", json={"sample_ids": unknown[:3], "label": "five"}).json()
    assert (labelled["added"], labelled["samples"], labelled["model_version"]) == (["five"], 3, 1)
    body = {"vectors": things(5, 1, seed=3).tolist(), "remember": False}
    assert client.post("/v1/recognize", json=body).json()["answers"][0]["label"] == "five"
    assert client.get("/v1/versions/1/rescored", params={"timeout": 10}).json()["model_version"] == 1
    undone = client.post("/v1/undo", json={}).json()
    assert undone["removed"] == ["five"]
    assert client.post("/v1/recognize", json=body).json()["answers"][0]["label"] is None
    assert client.post("/v1/redo", json={}).json()["added"] == ["five"]
    assert client.get("/v1/progress").json()["my_labelled"] == 3
    acts = client.get("/v1/history").json()
    assert [act["kind"] for act in acts] == ["redo", "undo", "label"]
    older = client.get("/v1/history", params={"before": acts[0]["id"], "limit": 1}).json()
    assert [act["kind"] for act in older] == ["undo"]


def test_a_cluster_is_labelled_without_its_strays(client, unknown, world):
    (cluster,) = world.clusters.replace([ClusterDraft(unknown[:4], unknown[0])])
    body = {"cluster_id": cluster, "without": [unknown[3]], "label": "five"}
    assert client.post("/v1/label", json=body).json()["samples"] == 3
    assert client.get(f"/v1/samples/{unknown[3]}").json()["state"] == "pending"


def test_dismissing_and_accepting(client, unknown):
    dismissed = client.post("/v1/dismiss", json={"sample_ids": unknown[:1], "reason": "blurred"})
    assert dismissed.json()["samples"] == 1
    accepted = client.post("/v1/accept", json={"sample_id": unknown[1], "label": "a"})
    assert accepted.json()["kind"] == "accept"
    assert client.post("/v1/accept", json={"sample_id": unknown[2], "label": "new"}).status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/label", {"sample_ids": [99], "label": "x"}, 404),
        ("/v1/label", {"cluster_id": 99, "label": "x"}, 404),
        ("/v1/label", {"sample_ids": [], "label": "x"}, 422),
        ("/v1/label", {"label": "x"}, 422),
        ("/v1/label", {"sample_ids": [1], "cluster_id": 1, "label": "x"}, 422),
        ("/v1/label", {"sample_ids": [1], "label": " "}, 422),
        ("/v1/label", {"sample_ids": [1], "label": "a\nb"}, 422),
        ("/v1/label", {"sample_ids": [1], "label": "unknown"}, 422),
        ("/v1/label", {"sample_ids": [2**40], "label": "x"}, 422),
        ("/v1/dismiss", {"sample_ids": [99]}, 404),
        ("/v1/dismiss", {"sample_ids": [1], "reason": "\0"}, 422),
        ("/v1/preview", {"sample_ids": [99], "label": "x"}, 404),
        ("/v1/undo", {"event_id": 99}, 404),
        ("/v1/undo", {}, 404),
        ("/v1/redo", {}, 404),
        ("/v1/versions/99/activate", None, 404),
        ("/v1/classes/merge", {"labels": ["a", "zz"], "into": "a"}, 404),
    ],
)
def test_acts_that_cannot_be_done(client, unknown, path, body, status):
    found = client.post(path, json=body)
    assert found.status_code == status, found.text
    assert found.json()["detail"]


def test_labels_that_differ_are_a_conflict(client, unknown):
    client.post("/v1/label", json={"sample_ids": unknown[:1], "label": "five"})
    found = client.post("/v1/label", json={"sample_ids": unknown[:1], "label": "six"})
    assert found.status_code == 409
    again = client.post("/v1/label", json={"sample_ids": unknown[:1], "label": "five"})
    assert again.json()["event_id"] is None


# -- classes --------------------------------------------------------------------------------------


def test_classes_are_listed_searched_and_described(client, unknown):
    client.post("/v1/label", json={"sample_ids": unknown[:3], "label": "ca/t & dög?"})
    labels = [info["label"] for info in client.get("/v1/classes").json()]
    assert labels == ["a", "b", "c", "ca/t & dög?"]
    found = client.get("/v1/classes", params={"search": "C"}).json()
    assert [info["label"] for info in found] == ["c", "ca/t & dög?"]
    assert [i["label"] for i in client.get("/v1/classes", params={"limit": 2}).json()] == ["a", "b"]
    path = "/v1/classes/ca%2Ft%20%26%20d%C3%B6g%3F"
    info = client.get(path).json()
    assert (info["count"], info["examples"]) == (3, unknown[:3])
    changed = client.patch(path, json={"label": "pet", "description": "<b>furry</b>"}).json()
    assert [outcome["kind"] for outcome in changed] == ["rename", "describe"]
    assert client.get("/v1/classes/pet").json()["description"] == "<b>furry</b>"
    assert client.patch("/v1/classes/pet", json={}).status_code == 422
    assert client.patch("/v1/classes/pet", json={"label": "a"}).status_code in (409, 422)
    assert client.patch("/v1/classes/none", json={"description": ""}).status_code == 404


def test_merging_and_forgetting_classes(client, unknown):
    client.post("/v1/label", json={"sample_ids": unknown[:3], "label": "five"})
    assert client.post("/v1/classes/merge", json={"labels": ["five", "a"], "into": "a"}).status_code == 200
    assert client.get("/v1/classes/five").status_code == 404
    assert client.delete("/v1/classes/a").json()["removed"] == ["a"]
    assert client.delete("/v1/classes/a").status_code == 404
    assert client.get(f"/v1/samples/{unknown[0]}").json()["state"] == "pending"


# -- versions and exports -------------------------------------------------------------------------


def test_versions_are_compared_and_activated(client, unknown):
    client.post("/v1/label", json={"sample_ids": unknown[:3], "label": "five"})
    assert [version["id"] for version in client.get("/v1/versions").json()] == [1, 0]
    compared = client.get("/v1/versions/compare", params={"a": 0, "b": 1}).json()
    assert (compared["added"], compared["removed"], compared["same"]) == (["five"], [], False)
    assert client.get("/v1/versions/compare", params={"a": 0, "b": 7}).status_code == 404
    assert client.post("/v1/versions/0/activate").json()["model_version"] == 2
    assert client.get("/v1/versions/compare", params={"a": 0, "b": 2}).json()["same"]


def test_exports(client, unknown, world, tmp_path):
    client.post("/v1/label", json={"sample_ids": unknown[:3], "label": "fünf"})
    lines = client.get("/v1/export/labelled").text.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["label"] for row in rows] == ["fünf"] * 3
    np.testing.assert_array_equal([row["feature"] for row in rows], world.pool.features(unknown[:3]))
    data = np.load(io.BytesIO(client.get("/v1/export/labelled", params={"format": "npz"}).content))
    np.testing.assert_array_equal(data["X"], world.pool.features(unknown[:3]))
    assert data["y"].tolist() == ["fünf"] * 3
    assert data["ids"].tolist() == unknown[:3]
    (event,) = [json.loads(line) for line in client.get("/v1/export/log").text.splitlines()]
    assert (event["kind"], event["who"], event["payload"]["label"]) == ("label", "local", "fünf")
    path = tmp_path / "model.ow"
    path.write_bytes(client.get("/v1/export/model").content)
    assert "fünf" in openworld.load(path).classes_
    assert client.get("/v1/export/labelled", params={"format": "pickle"}).status_code == 422
