"""Words of the templates, and errors as pages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from openworld.service.pages.page import _NAVIGATION, _ago, _plural


def test_words_for_numbers_and_times() -> None:
    assert [_plural(n, "class") for n in (0, 1, 2)] == ["0 classes", "1 class", "2 classes"]
    assert _plural(12345, "sample") == "12,345 samples"
    now = datetime.now(UTC)
    assert _ago(now) == "just now"
    assert _ago(now - timedelta(minutes=1, seconds=59)) == "1 minute ago"
    assert _ago(now - timedelta(hours=49)) == "2 days ago"


def test_a_browser_gets_a_page_and_a_program_json(client: Any) -> None:
    as_browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    page = client.get("/no/<such>/page", headers=as_browser)
    assert page.status_code == 404
    assert page.headers["content-type"].startswith("text/html")
    assert "There is no such page" in page.text
    assert "<such>" not in page.text
    assert client.get("/no/such/page").json()["error"] == "not found"
    assert client.get("/v1/samples/999", headers=as_browser).json()["error"] == "not found"
    wrong = client.get("/unknowns/group?cluster=x", headers=as_browser)
    assert (wrong.status_code, wrong.headers["content-type"][:9]) == (422, "text/html")


def test_an_error_of_the_server_is_a_page_for_a_browser_and_json_for_a_program(
    serving: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving() as client:
        client._transport.raise_server_exceptions = False
        monkeypatch.setattr("openworld.service.classes.Classes.all", lambda _: 1 / 0)
        page = client.get("/classes", headers={"Accept": "text/html"})
        assert (page.status_code, page.headers["content-type"][:9]) == (500, "text/html")
        assert "Something went wrong" in page.text
        assert client.get("/v1/classes").json()["error"] == "internal error"


def test_every_page_opens_without_samples_and_with_them(client: Any, things: Any) -> None:
    pages = [address for address, _ in _NAVIGATION] + ["/people", "/login", "/unknowns/group"]
    for _ in range(2):
        assert {address: client.get(address).status_code for address in pages} == dict.fromkeys(pages, 200)
        client.post("/v1/recognize", json={"vectors": [*things(0, 3).tolist(), *things(5, 3).tolist()]})


def test_a_name_is_asked_for_until_a_person_declines(client: Any) -> None:
    assert 'id="who"' in client.get("/").text
    client.cookies.set("openworld_no_name", "1")
    assert 'id="who"' not in client.get("/").text
