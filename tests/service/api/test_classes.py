"""Routes of classes."""

from __future__ import annotations


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
