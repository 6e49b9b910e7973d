from __future__ import annotations

import pytest


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
def test_other_sites_cannot_act(client, headers, status):
    body = {"vectors": [[0, 0, 0, 0]], "remember": False}
    for path in ("/v1/recognize", "/v1/session"):
        sent = body if path == "/v1/recognize" else {"name": "ann"}
        assert client.post(path, json=sent, headers=headers).status_code == status
    assert client.get("/v1/pool", headers=headers).status_code == 200


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


def test_browsers_are_told_to_be_strict(client):
    for path in ("/health", "/v1/nothing", "/v1/samples/99"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
