from __future__ import annotations

from types import SimpleNamespace

import pytest

from openworld.service.auth.authorization import RateLimit

ROLES = ("nobody", "viewer", "labeler", "admin")
IDS = {"sample_ids": [1]}
# The least role that each endpoint asks for.
ACCESS = [
    ("GET", "/health", None, "nobody"),
    ("GET", "/ready", None, "nobody"),
    ("GET", "/v1/session", None, "nobody"),
    ("GET", "/metrics", None, "viewer"),
    ("GET", "/v1/statistics", None, "viewer"),
    ("GET", "/v1/pool", None, "viewer"),
    ("GET", "/v1/samples/1", None, "viewer"),
    ("GET", "/v1/samples/1/similar", None, "viewer"),
    ("GET", "/v1/samples/1/thumbnail", None, "viewer"),
    ("GET", "/v1/samples/1/preview", None, "viewer"),
    ("POST", "/v1/relabel", {"sample_ids": [1]}, "labeler"),
    ("GET", "/v1/clusters", None, "viewer"),
    ("GET", "/v1/clusters/1", None, "viewer"),
    ("GET", "/v1/clusters/map", None, "viewer"),
    ("GET", "/v1/classes", None, "viewer"),
    ("GET", "/v1/classes/a", None, "viewer"),
    ("GET", "/v1/history", None, "viewer"),
    ("GET", "/v1/versions", None, "viewer"),
    ("GET", "/v1/versions/compare?a=0&b=0", None, "viewer"),
    ("GET", "/v1/versions/0/rescored", None, "viewer"),
    ("GET", "/v1/progress", None, "viewer"),
    ("GET", "/v1/quality", None, "viewer"),
    ("GET", "/v1/keys", None, "admin"),
    ("POST", "/v1/keys", {"name": "dan"}, "admin"),
    ("DELETE", "/v1/keys/dan", None, "admin"),
    ("GET", "/v1/operating-point", None, "viewer"),
    ("PATCH", "/v1/operating-point", {"objective": "error"}, "admin"),
    ("GET", "/v1/export/labeled", None, "viewer"),
    ("GET", "/v1/export/log", None, "viewer"),
    ("GET", "/v1/export/model", None, "viewer"),
    ("POST", "/v1/preview", {**IDS, "label": "x"}, "viewer"),
    ("POST", "/v1/recognize", {"vectors": [[0, 0, 0, 0]], "remember": False}, "viewer"),
    ("POST", "/v1/recognize.npy?remember=false", None, "viewer"),
    ("POST", "/v1/recognize", {"vectors": [[90, 0, 0, 0]]}, "labeler"),
    ("POST", "/v1/recognize.npy", None, "labeler"),
    ("POST", "/v1/learn", {"vectors": [[0, 0, 0, 0]], "labels": ["x"]}, "labeler"),
    ("POST", "/v1/import", None, "labeler"),
    ("POST", "/v1/label", {**IDS, "label": "x"}, "labeler"),
    ("POST", "/v1/dismiss", IDS, "labeler"),
    ("POST", "/v1/feedback", {"reviews": [{"sample_id": 1, "right": True}]}, "labeler"),
    ("POST", "/v1/accept", {"sample_id": 1, "label": "x"}, "labeler"),
    ("POST", "/v1/clusters/merge", {"cluster_ids": [1, 2]}, "labeler"),
    ("POST", "/v1/clusters/1/split", IDS, "labeler"),
    ("POST", "/v1/clusters/1/lease", None, "labeler"),
    ("DELETE", "/v1/clusters/1/lease", None, "labeler"),
    ("POST", "/v1/clusters/refresh", None, "labeler"),
    ("POST", "/v1/clusters/granularity", {"finer": 1}, "labeler"),
    ("PATCH", "/v1/classes/a", {"description": "x"}, "labeler"),
    ("POST", "/v1/classes/merge", {"labels": ["zz"], "into": "a"}, "labeler"),
    ("POST", "/v1/undo", {}, "labeler"),
    ("POST", "/v1/redo", {}, "labeler"),
    ("POST", "/v1/erase", {"sample_ids": [999]}, "admin"),
    ("DELETE", "/v1/classes/zz", None, "admin"),
    ("POST", "/v1/versions/99/activate", None, "admin"),
]


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize("role", ROLES)
def test_everyone_may_do_what_their_role_may(locked, keys, role):
    headers = bearer(keys[role]) if role in keys else {}
    for method, path, body, least in ACCESS:
        status = locked.request(method, path, json=body, headers=headers).status_code
        if ROLES.index(role) >= ROLES.index(least):
            assert status not in (401, 403, 500), (method, path)
        else:
            assert status == (401 if role == "nobody" else 403), (method, path)


def test_every_endpoint_is_in_the_table_of_access(client):
    described = {
        (method.upper(), path)
        for path, methods in client.get("/v1/openapi.json").json()["paths"].items()
        for method in methods
    }
    tried = {(method, path.split("?")[0]) for method, path, _, _ in ACCESS}
    elsewhere = {
        ("GET", "/v1/events"),
        ("POST", "/v1/session"),
        ("DELETE", "/v1/session"),
        ("POST", "/v1/recognize/images"),
        ("POST", "/v1/learn/images"),
    }
    filled = {
        "{sample_id}": "1",
        "{cluster_id}": "1",
        "{name}": "dan",
        "/v1/versions/{version}/rescored": "/v1/versions/0/rescored",
        "{version}": "99",
    }
    for method, path in sorted(described):
        for name, value in filled.items():
            path = path.replace(name, value)
        options = {path.replace("{label}", label) for label in ("a", "zz")}
        assert (method, path) in elsewhere or any((method, option) in tried for option in options), path


def test_other_ways_in_need_a_key_as_well(locked, keys):
    assert locked.get("/v1/events").status_code == 401
    for path in ("/v1/recognize/images", "/v1/learn/images"):
        sent = {"files": {"files": b"x"}, "data": {"labels": "a"}}
        assert locked.post(path, **sent).status_code == 401
        assert locked.post(path, **sent, headers=bearer(keys["viewer"])).status_code == 403


def test_only_an_admin_undoes_what_others_did(locked, keys, world):
    world.labels.learn([[50, 0, 0, 0], [51, 0, 0, 0]], ["far", "far"], "someone else")
    found = locked.post("/v1/undo", json={"event_id": 1}, headers=bearer(keys["labeler"]))
    assert found.status_code == 403
    assert "someone else" in found.json()["detail"]
    assert locked.post("/v1/undo", json={"event_id": 1}, headers=bearer(keys["admin"])).status_code == 200


def test_rate_limit(serving):
    with serving(rate_limit=0.001) as client:
        codes = [client.get("/v1/classes").status_code for _ in range(12)]
        assert codes == [200] * 10 + [429] * 2
        found = client.get("/v1/classes")
        assert int(found.headers["retry-after"]) > 100
        assert found.json()["error"] == "too many requests"
        assert client.get("/health").status_code == 200


def test_a_bucket_fills_at_its_rate():
    clock = SimpleNamespace(now=0.0)
    limit = RateLimit(2.0, 3.0, lambda: clock.now)
    assert [limit.wait_for("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert limit.wait_for("b") == 0
    clock.now = 0.75
    assert [limit.wait_for("a"), limit.wait_for("a")] == [0, 0.25]
    clock.now = 100.0
    assert [limit.wait_for("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert not any(RateLimit(0, 1).wait_for("a") for _ in range(100))
