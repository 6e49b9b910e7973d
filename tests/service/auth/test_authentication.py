from __future__ import annotations

from dataclasses import replace

from openworld.service.auth.authentication import Authenticator


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
