"""Routes of labels."""

from __future__ import annotations

import pytest

from openworld.store.records import ClusterDraft


def test_from_unknown_to_known_and_back(client, unknown, things):
    preview = client.post("/v1/preview", json={"sample_ids": unknown[:3], "label": "five"}).json()
    assert (preview["new_class"], preview["samples"]) == (True, 3)
    labeled = client.post("/v1/label", json={"sample_ids": unknown[:3], "label": "five"}).json()
    assert (labeled["added"], labeled["samples"], labeled["model_version"]) == (["five"], 3, 1)
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
