"""Routes of labels, classes and the operating point."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from openworld.service.world import World
from openworld.store.records import ClusterDraft


def test_from_unknown_to_known_and_back(client, unknown, things):
    preview = client.post("/v1/preview", json={"sample_ids": unknown[:3], "label": "five"}).json()
    assert (preview["new_class"], preview["samples"]) == (True, 3)
    labeled = client.post("/v1/label", json={"sample_ids": unknown[:3], "label": "five"}).json()
    assert (labeled["added"], labeled["samples"], labeled["model_version"]) == (["five"], 3, 1)
    assert labeled["new_version"] is True
    body = {"vectors": things(5, 1, seed=3).tolist(), "remember": False}
    assert client.post("/v1/recognize", json=body).json()["answers"][0]["label"] == "five"
    assert client.get("/v1/versions/1/rescored", params={"timeout": 10}).json()["model_version"] == 1
    undone = client.post("/v1/undo", json={}).json()
    assert undone["removed"] == ["five"]
    assert client.post("/v1/recognize", json=body).json()["answers"][0]["label"] is None
    assert client.post("/v1/redo", json={}).json()["added"] == ["five"]
    assert client.get("/v1/progress").json()["my_labeled"] == 3
    events = client.get("/v1/history").json()
    assert [event["kind"] for event in events] == ["redo", "undo", "label"]
    older = client.get("/v1/history", params={"before": events[0]["id"], "limit": 1}).json()
    assert [event["kind"] for event in older] == ["undo"]


def test_a_cluster_is_labeled_without_some_samples(client, unknown, world):
    (cluster,) = world.clusters.replace([ClusterDraft(unknown[:4], unknown[0])])
    body = {"cluster_id": cluster, "without": [unknown[3]], "label": "five"}
    assert client.post("/v1/label", json=body).json()["samples"] == 3
    assert client.get(f"/v1/samples/{unknown[3]}").json()["state"] == "pending"
    again = client.post("/v1/label", json={**body, "label": "six"})
    assert "others labeled or dismissed it" in again.json()["detail"]
    never = client.post("/v1/label", json={**body, "cluster_id": cluster + 1})
    assert (never.status_code, never.json()["detail"]) == (404, f"There is no cluster {cluster + 1}.")


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
def test_requests_that_cannot_be_done(client, unknown, path, body, status):
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


def test_samples_are_erased_by_an_admin_for_good(client, unknown, world):
    client.post("/v1/label", json={"sample_ids": unknown[:3], "label": "e"})
    erased = client.post("/v1/erase", json={"sample_ids": unknown[:1]}).json()
    assert (erased["kind"], erased["samples"], erased["model_version"]) == ("erase", 1, 2)
    assert client.get(f"/v1/samples/{unknown[0]}").status_code == 404
    assert client.get("/v1/classes/e").json()["count"] == 2
    assert client.post("/v1/erase", json={"sample_ids": unknown[:1]}).status_code == 404
    assert client.post("/v1/undo", json={"event_id": erased["event_id"]}).status_code in (404, 409, 422)
    dialog = client.get(f"/unknowns/sample/{unknown[1]}").text
    assert "Erase this sample" in dialog
    assert client.get("/history").status_code == 200


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


def test_classes_named_like_dot_segments_can_be_looked_at_renamed_and_forgotten(client, unknown):
    for ids, name in ((unknown[:3], "."), (unknown[3:], "..")):
        client.post("/v1/label", json={"sample_ids": ids, "label": name})
        assert client.get("/v1/classes/-", params={"name": name}).json()["count"] == 3
    renamed = client.patch("/v1/classes/-", params={"name": ".."}, json={"label": "dots"})
    assert renamed.json()[0]["added"] == ["dots"]
    assert client.delete("/v1/classes/-", params={"name": "."}).json()["removed"] == ["."]
    assert client.get("/v1/classes", params={"search": "."}).json() == []


def test_a_merge_into_nothing_or_itself_is_refused_without_a_version(client):
    for into, status in (("new", 404), ("a", 422)):
        assert client.post("/v1/classes/merge", json={"labels": ["a"], "into": into}).status_code == status
    assert client.get("/v1/history").json() == []


# -- versions and exports -------------------------------------------------------------------------


# -- the operating point --------------------------------------------------------------------------


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
