"""GET, POST and DELETE /v1/keys, and the page of people."""

from __future__ import annotations

from fastapi.testclient import TestClient


def test_admins_make_and_revoke_keys(client: TestClient) -> None:
    assert "There is no key yet" in client.get("/people").text
    refused = client.post("/v1/keys", json={"name": "bob", "role": "labeler"})
    assert (refused.status_code, "first key must have the role admin" in refused.json()["detail"]) == (
        409,
        True,
    )
    made = client.post("/v1/keys", json={"name": "ann", "role": "admin"}).json()
    assert (made["name"], made["role"]) == ("ann", "admin")
    ann = {"Authorization": f"Bearer {made['key']}"}
    bob = client.post("/v1/keys", json={"name": "bob"}, headers=ann).json()
    assert bob["role"] == "labeler"
    assert client.post("/v1/keys", json={"name": "bob"}, headers=ann).status_code == 409
    as_bob = {"Authorization": f"Bearer {bob['key']}"}
    for path in ("/v1/keys", "/people"):
        assert client.get(path, headers=as_bob).status_code == 403
    listed = client.get("/v1/keys", headers=ann)
    assert [key["name"] for key in listed.json()] == ["ann", "bob"]
    assert made["key"] not in listed.text
    assert bob["key"] not in client.get("/people", headers=ann).text

    assert client.delete("/v1/keys/bob", headers=ann).status_code == 204
    assert client.delete("/v1/keys/bob", headers=ann).status_code == 404
    last = client.delete("/v1/keys/ann", headers=ann)
    assert (last.status_code, "last key of an admin" in last.json()["detail"]) == (409, True)
    assert [key["revoked_at"] is None for key in client.get("/v1/keys", headers=ann).json()] == [True, False]


def test_a_name_is_asked_for_at_the_first_visit(client: TestClient) -> None:
    assert 'id="who"' in client.get("/").text
    assert client.post("/v1/session", json={"name": "Ann"}).status_code == 200
    assert 'id="who"' not in client.get("/").text
