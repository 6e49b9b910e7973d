"""Words of the templates, and errors as pages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from openworld.service.pages.page import _ago, _plural


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
