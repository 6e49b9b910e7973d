"""Middleware: hosts, other sites, sizes of bodies, and what would take long to parse."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
from fastapi import HTTPException
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from openworld.service.middleware import JsonCounter, read_body

KEY = "an-admin-key-of-the-settings"
AUTHORIZED = {"Authorization": f"Bearer {KEY}"}
Serving = Callable[..., AbstractContextManager[TestClient]]

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab",[]{}\\', max_size=6),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(st.text('a",[\\', max_size=3), values),
    max_leaves=30,
)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'world.db'}"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:8000"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:9000"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
    ],
)
def test_other_sites_cannot_append_events(client, headers, status):
    body = {"vectors": [[0, 0, 0, 0]], "remember": False}
    for path in ("/v1/recognize", "/v1/session"):
        sent = body if path == "/v1/recognize" else {"name": "ann"}
        assert client.post(path, json=sent, headers=headers).status_code == status
    assert client.get("/v1/pool", headers=headers).status_code == 200


def test_a_nul_in_the_address_is_refused(client):
    """PostgreSQL would raise an error."""
    for path in ("/v1/pool?nearest=%00", "/v1/classes/a%00b", "/history?who=a%00"):
        assert client.get(path).status_code == 400
    assert client.delete("/v1/keys/%00").status_code == 400


def test_a_length_of_thousands_of_zeros_is_read(client):
    sent = {"Content-Length": 5000 * "0" + "2", "Content-Type": "application/json"}
    assert client.post("/v1/undo", content=b"{}", headers=sent).status_code < 500


def test_only_known_names_of_the_host_are_answered_to(serving):
    with serving(allowed_hosts="open.example") as client:
        for host, status in {
            "localhost:8000": 200,
            "LOCALHOST": 200,
            "[::1]:8000": 200,
            "open.example": 200,
            "evil.example": 400,
            "evil.example:8000": 400,
            "": 400,
        }.items():
            assert client.get("/health", headers={"Host": host}).status_code == status, host


def test_browsers_are_asked_to_be_strict(client):
    for path in ("/health", "/v1/nothing", "/v1/samples/99"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


# -- bodies ---------------------------------------------------------------------------------------


def _count(value: Any) -> tuple[int, int]:
    """Return the lists and objects in a value, and the commas between what is in them."""
    if not isinstance(value, list | dict):
        return 0, 0
    inner = [_count(part) for part in (value.values() if isinstance(value, dict) else value)]
    return 1 + sum(n for n, _ in inner), max(len(value) - 1, 0) + sum(n for _, n in inner)


@given(_json, st.integers(1, 9))
def test_counts_agree_with_the_parsed_value(value: Any, piece: int) -> None:
    body = json.dumps(value).encode()
    n_lists, n_commas = _count(value)
    most = max(n_commas, body.count(b'"'))

    def is_bounded(most_lists: int, most_values: int) -> bool:
        counter = JsonCounter(most_lists, most_values)
        for start in range(0, len(body), piece):
            counter.add(body[start : start + piece])
        return counter.is_bounded

    assert is_bounded(n_lists, most)
    assert n_lists == 0 or not is_bounded(n_lists - 1, most)
    assert n_commas == 0 or not is_bounded(n_lists, n_commas - 1)


@pytest.mark.parametrize(
    "path",
    ["/v1/recognize", "/v1/learn", "/v1/recognize.npy", "/v1/learn/images", "/try/vector"],
)
def test_no_body_is_read_without_a_key(serving: Serving, path: str) -> None:
    with serving(key=KEY) as client:
        sent: list[Any] = []

        async def receive() -> Any:
            pytest.fail("the body was read")

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", b"127.0.0.1"), (b"content-length", b"60000000")]
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [*headers, (b"content-type", b"application/json")],
            "client": ("127.0.0.1", 5000),
            "server": ("127.0.0.1", 8000),
            "scheme": "http",
            "http_version": "1.1",
            "root_path": "",
        }
        asyncio.run(client.app(scope, receive, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 401


def test_logging_in_takes_a_small_body(serving: Serving) -> None:
    with serving(key=KEY) as client:
        assert client.post("/v1/session", json={"key": KEY}).status_code == 200
        assert client.post("/v1/session", json={"key": "x" * 20_000}).status_code == 413


def test_other_routes_take_as_much_as_the_most_ids_need(serving: Serving) -> None:
    with serving(key=KEY) as client:
        ids = list(range(1_000_000_000, 1_000_100_000))
        most = client.post("/v1/dismiss", json={"sample_ids": ids, "reason": ""}, headers=AUTHORIZED)
        assert most.status_code == 404  # there are no such samples
        large = client.post("/v1/dismiss", content=b" " * 2_000_001, headers=AUTHORIZED)
        assert large.status_code == 413


def test_too_many_lists_are_refused_unparsed(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(key=KEY) as client:
        monkeypatch.setattr(json, "loads", lambda *_, **__: pytest.fail("parsed"))
        for path in ("/v1/recognize", "/v1/learn", "/v1/dismiss"):
            body = b'{"vectors": [' + b"[1]," * 40_000 + b"[1]]}"
            found = client.post(
                path, content=body, headers={**AUTHORIZED, "Content-Type": "application/json"}
            )
            assert found.status_code == 413
            assert b"more lists or values" in found.content


def test_what_is_refused_is_not_read_to_its_end() -> None:
    n_read = 0

    async def receive() -> Any:
        nonlocal n_read
        n_read += 1
        return {"type": "http.request", "body": b"[1]," * 20_000, "more_body": True}

    with pytest.raises(HTTPException, match="more lists or values"):
        asyncio.run(read_body(receive, JsonCounter(50_000, 1_000_000)))
    assert n_read == 3


def test_a_body_in_pieces_is_joined_and_one_that_is_cut_off_is_refused() -> None:
    first = {"type": "http.request", "body": b"a", "more_body": True}

    def read(last: dict[str, Any]) -> bytes:
        messages = iter([first, last])

        async def receive() -> dict[str, Any]:
            return next(messages)

        return asyncio.run(read_body(receive))

    assert read({"type": "http.request", "body": b"b"}) == b"ab"
    with pytest.raises(HTTPException, match="cut off"):
        read({"type": "http.disconnect"})


def test_large_bodies_answer_as_small_ones(serving: Serving, things: Callable[..., Any]) -> None:
    with serving(key=KEY, max_batch=10_000) as client:
        X = np.repeat(things(0, 3), 1000, axis=0)
        large = client.post("/v1/recognize", json={"vectors": X.tolist()}, headers=AUTHORIZED).json()
        small = client.post("/v1/recognize", json={"vectors": X[::1000].tolist()}, headers=AUTHORIZED).json()
        assert large["answers"][::1000] == small["answers"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"vectors": [["x"] * 4] * 9000}, "body.vectors.0.0: Input should be a valid number"),
        ({"vectors": [[1.0] * 4] * 9000, "surprise": 1}, "body.surprise: Extra inputs"),
        ({"texts": [1] * 90_000}, "body.texts.0: Input should be a valid string"),
        ({"remember": False, "source": "x" * 70_000}, "body.source"),
    ],
)
def test_large_bodies_that_are_wrong(serving: Serving, body: Any, words: str) -> None:
    with serving(key=KEY, max_batch=100_000) as client:
        found = client.post("/v1/recognize", json=body, headers=AUTHORIZED)
        assert found.status_code == 422
        assert words in found.json()["detail"]
        assert " more)" not in found.json()["detail"]
    with serving(key=KEY, max_batch=100_000) as client:
        cut = json.dumps(body)[:-1]
        found = client.post(
            "/v1/recognize", content=cut, headers={**AUTHORIZED, "Content-Type": "application/json"}
        )
        assert found.status_code == 422
