"""Words of the templates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from openworld.service.pages.page import _ago, _plural


def test_words_for_numbers_and_times() -> None:
    assert [_plural(n, "class") for n in (0, 1, 2)] == ["0 classes", "1 class", "2 classes"]
    assert _plural(12345, "sample") == "12,345 samples"
    now = datetime.now(UTC)
    assert _ago(now) == "just now"
    assert _ago(now - timedelta(minutes=1, seconds=59)) == "1 minute ago"
    assert _ago(now - timedelta(hours=49)) == "2 days ago"
