"""Authentication, roles, rate limits, keys and sessions, on SQLite: the database makes no difference here."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from openworld.service.auth import ROLES, Authenticator, RateLimit, session_secret
from openworld.service.world import World

NOBODY_AND_ROLES = ("nobody", *ROLES)
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


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'world.db'}"


@pytest.fixture
def world(url: str, models: Callable[[str], Any]) -> Iterator[World]:
    with World.open(url, models("nno")) as found:
        yield found


@pytest.fixture
def keys(world):
    return {role: world.keys.create(f"the {role}", role) for role in ROLES}


@pytest.fixture
def locked(keys, serving):
    with serving() as found:
        yield found


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def test_keys_by_other_header_and_wrong_ones(locked, keys):
    assert locked.get("/v1/pool", headers={"X-API-Key": keys["viewer"]}).status_code == 200
    for headers in (bearer("ow_wrong"), {"Authorization": "Basic abc"}, {"X-API-Key": b"\xe9"}):
        assert locked.get("/v1/pool", headers=headers).status_code == 401


def test_one_who_tries_many_keys_has_to_wait(locked, keys, world):
    service = (
        locked.app.state.service
    )  # time stands still: on a slow machine a guess would come free meanwhile
    still = Authenticator(world.keys, service.settings, service.auth.sessions, lambda: 0.0)
    locked.app.state.service = replace(service, auth=still)
    assert locked.get("/v1/pool", headers=bearer(keys["viewer"])).status_code == 200
    codes = [locked.get("/v1/pool", headers=bearer(f"ow_{i}")).status_code for i in range(12)]
    assert codes == [401] * 10 + [429] * 2
    # A right one among the guesses would be told from the wrong ones; only a key in use goes on.
    assert locked.get("/v1/pool", headers=bearer(keys["labeler"])).status_code == 429
    assert locked.post("/v1/session", json={"key": keys["labeler"]}).status_code == 429
    assert locked.get("/v1/pool", headers=bearer(keys["viewer"])).status_code == 200


def test_logging_out_ends_the_session_on_the_server(locked, keys):
    locked.post("/v1/session", json={"key": keys["labeler"]})
    stolen = locked.cookies["openworld_session"]
    locked.post("/v1/session", json={"key": keys["labeler"]})
    other = locked.cookies["openworld_session"]
    locked.cookies.clear()
    for cookie, code in ((stolen, 200), (other, 200)):
        assert locked.get("/v1/pool", headers={"Cookie": f"openworld_session={cookie}"}).status_code == code
    assert locked.delete("/v1/session", headers={"Cookie": f"openworld_session={stolen}"}).status_code == 204
    for cookie, code in ((stolen, 401), (other, 200)):
        assert locked.get("/v1/pool", headers={"Cookie": f"openworld_session={cookie}"}).status_code == code


def test_another_key_in_the_settings_ends_the_sessions_of_the_first(serving):
    with serving(key="a secret of many letters") as client:
        client.post("/v1/session", json={"key": "a secret of many letters"})
        cookie = {"Cookie": f"openworld_session={client.cookies['openworld_session']}"}
        assert client.get("/v1/pool", headers=cookie).status_code == 200
    with serving(key="a secret of other letters") as client:
        assert client.get("/v1/pool", headers=cookie).status_code == 401
    with serving(key="a secret of many letters") as client:
        assert client.get("/v1/pool", headers=cookie).status_code == 200


def test_a_revoked_key_admits_no_more(world, keys, serving):
    with serving() as client:
        assert client.get("/v1/pool", headers=bearer(keys["viewer"])).status_code == 200
        world.keys.revoke("the viewer")
        client.app.state.service.auth._cache.clear()  # as five seconds do
        assert client.get("/v1/pool", headers=bearer(keys["viewer"])).status_code == 401


def test_the_key_of_the_settings_is_an_admin(serving):
    with serving(key="a secret of many letters") as client:
        assert client.get("/v1/pool").status_code == 401
        assert client.get("/v1/pool", headers=bearer("a secret of many letters")).status_code == 200
        found = client.post("/v1/session", json={"key": "a secret of many letters"}).json()
        assert (found["name"], found["role"]) == ("admin", "admin")
        assert client.get("/v1/pool").status_code == 200


def test_sessions(locked, keys, world):
    assert locked.get("/v1/session").json() == {"name": None, "role": None, "needs_key": True}
    assert locked.post("/v1/session", json={"name": "ann"}).status_code == 401
    assert locked.post("/v1/session", json={"key": "ow_wrong"}).status_code == 401
    found = locked.post("/v1/session", json={"key": keys["labeler"]})
    assert found.json() == {"name": "the labeler", "role": "labeler", "needs_key": True}
    cookie = found.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert keys["labeler"].lower() not in cookie
    assert locked.get("/v1/pool").status_code == 200
    assert locked.delete("/v1/classes/a").status_code == 403
    sealed = locked.cookies["openworld_session"]
    locked.cookies.clear()
    for forged in (sealed[:-1], sealed[1:], "x", sealed.replace(".", ".A", 1)):
        assert locked.get("/v1/pool", headers={"Cookie": f"openworld_session={forged}"}).status_code == 401
    assert locked.get("/v1/pool", headers={"Cookie": f"openworld_session={sealed}"}).status_code == 200
    assert "openworld_session=" in locked.delete("/v1/session").headers["set-cookie"]


def test_without_keys_one_chooses_a_name(client, unknown, world):
    assert client.post("/v1/session", json={"name": "ann"}).json()["name"] == "ann"
    client.post("/v1/dismiss", json={"sample_ids": unknown[:1]})
    assert client.get("/v1/history").json()[0]["who"] == "ann"
    assert client.post("/v1/session", json={"name": "a\0b"}).status_code == 422
    world.keys.create("key", "admin")
    client.app.state.service.auth._cache.clear()
    assert client.get("/v1/pool").status_code == 401  # a name alone admits no more


@pytest.mark.parametrize("role", NOBODY_AND_ROLES)
def test_everyone_may_do_what_their_role_may(locked, keys, role):
    headers = bearer(keys[role]) if role in keys else {}
    for method, path, body, least in ACCESS:
        status = locked.request(method, path, json=body, headers=headers).status_code
        if NOBODY_AND_ROLES.index(role) >= NOBODY_AND_ROLES.index(least):
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


def test_the_secret_of_sessions_is_kept_in_the_database_which_only_its_owner_reads(
    world, settings_of, tmp_path
):
    secret = session_secret(settings_of(), world.replicas)
    assert secret == session_secret(settings_of(), world.replicas)
    assert len(secret) >= 32
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.glob("world.db*")} == {0o600}
    assert session_secret(settings_of(session_secret="s" * 16), world.replicas) == "s" * 16
