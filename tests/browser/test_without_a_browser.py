"""What the pages work out on the server: charts, drawings, words, and requests that make no sense."""

from __future__ import annotations

import runpy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from openworld.data.letters import load_letters
from openworld.service.pages.charts import line
from openworld.service.pages.groups import after
from openworld.service.pages.rendering import _ago, _plural
from openworld.service.pages.try_it import _centered
from openworld.service.results import Cluster


def test_without_any_chromium_one_is_told_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tried: list[tuple[str, ...]] = []
    chromium = runpy.run_path(str(Path(__file__).with_name("chromium.py")))
    find = chromium["find"]
    monkeypatch.setitem(find.__globals__, "_run", lambda *command: tried.append(command))
    monkeypatch.setattr("shutil.which", lambda name: "apt-get" if name == "apt-get" else None)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    own = tmp_path / "chrome"
    with pytest.raises(RuntimeError, match="apt-get install chromium"):
        find(str(own))
    assert [command[1] for command in tried] == ["install", "-m"]  # Debian's, then playwright's
    own.touch()
    assert find(str(own)) == str(own)
    monkeypatch.setattr("shutil.which", lambda name: "the system's" if name == "chromium" else None)
    assert find(str(own)) == "the system's"


def test_a_line_has_gaps_and_a_scale() -> None:
    chart = line([0.0, 1.0, None, 2.0])
    assert chart.path == "M0.0 120.0h0L200.0 60.0M600.0 0.0h0"
    assert (chart.top, chart.last) == (2.0, 2.0)
    assert line([0.5], top=1.0).path == "M0.0 60.0h0"
    assert line([]).path == line([None, None]).path == ""
    assert line([]).last is None


def test_a_drawing_is_moved_to_where_the_letters_are() -> None:
    letters = load_letters()
    images = letters.images[::500]
    assert len(images) > 20
    moved = np.stack([_centered(np.roll(image, shift, axis=1)) for image in images for shift in (-2, 0, 3)])
    offsets = [
        np.abs(np.flatnonzero(image.any(axis=0))[[0, -1]].sum() - 27) for image in moved
    ]  # the middle of 28 columns is at 13.5
    assert max(offsets) <= 1


def test_words_for_numbers_and_times() -> None:
    assert [_plural(n, "class") for n in (0, 1, 2)] == ["0 classes", "1 class", "2 classes"]
    assert _plural(12345, "sample") == "12,345 samples"
    now = datetime.now(UTC)
    assert _ago(now) == "just now"
    assert _ago(now - timedelta(minutes=1, seconds=59)) == "1 minute ago"
    assert _ago(now - timedelta(hours=49)) == "2 days ago"


def test_the_next_cluster_is_one_that_nobody_else_holds() -> None:
    def cluster(number: int, holder: str | None = None) -> Cluster:
        return Cluster(number, 0, 1, False, holder, None)

    clusters = [cluster(1), cluster(2, "Ann"), cluster(3, "Bob"), cluster(4)]
    assert [found and found.id for i in (1, 2, 3, 4, 0) if (found := after(clusters, i, "Bob"))] == [
        3,
        3,
        4,
        1,
        1,
    ]
    assert after(clusters[1:2], 7, "Bob") is None
    assert after([cluster(5)], 5, "Bob") is None


NOT_THERE = (
    "/unknowns/group?cluster=99999999999999999999",
    "/unknowns/group?like=987654",
    "/unknowns/members?cluster=1&after=nonsense",
    "/unknowns/cards?start=-1",
    "/unknowns/sample/0",
    "/classes/one?label=%00",
    "/dashboard/compare?a=1&b=99",
    "/static/x/..%2F..%2Fapp.py",
    "/static/x/nothing.css",
)


def test_what_is_not_there_or_makes_no_sense_is_no_failure(site: Any) -> None:
    with httpx.Client(base_url=site.url) as client:
        assert {path: client.get(path).status_code for path in NOT_THERE}.items() <= {
            (path, code) for path in NOT_THERE for code in (200, 404, 422)
        }
        for pixels in ("", "1,2", ",".join(["256"] * 784), ",".join(["0"] * 784)):
            assert client.post("/try/letter", data={"pixels": pixels}).status_code == 422
        assert client.post("/unknowns/hints", data={"chosen": "x,99999999999", "count": 1}).status_code == 200
        assert client.post("/try/text", data={"text": "hello"}).status_code == 409


def test_pages_carry_no_pictures_and_the_strict_policy(site: Any) -> None:
    response = httpx.get(site.url + "/unknowns/group?cluster=1")
    assert "data:image" not in response.text
    assert 'loading="lazy"' in response.text
    policy = response.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "<style" not in response.text
    assert " style=" not in response.text
