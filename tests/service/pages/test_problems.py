"""An address that does not exist."""

from __future__ import annotations

from typing import Any


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
