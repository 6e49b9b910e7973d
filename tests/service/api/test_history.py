"""Routes of the history."""

from __future__ import annotations


def test_versions_are_compared_and_activated(client, unknown):
    client.post("/v1/label", json={"sample_ids": unknown[:3], "label": "five"})
    assert [version["id"] for version in client.get("/v1/versions").json()] == [1, 0]
    compared = client.get("/v1/versions/compare", params={"a": 0, "b": 1}).json()
    assert (compared["added"], compared["removed"], compared["same"]) == (["five"], [], False)
    assert client.get("/v1/versions/compare", params={"a": 0, "b": 7}).status_code == 404
    assert client.post("/v1/versions/0/activate").json()["model_version"] == 2
    assert client.get("/v1/versions/compare", params={"a": 0, "b": 2}).json()["same"]
