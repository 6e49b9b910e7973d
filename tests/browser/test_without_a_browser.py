"""The pages without a browser: requests that make no sense, headers, and how chromium is found."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import httpx
import pytest


def test_without_any_chromium_the_error_says_how_to_get_it(
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
    with httpx.Client(base_url=site.url, timeout=300) as client:
        assert {path: client.get(path).status_code for path in NOT_THERE}.items() <= {
            (path, code) for path in NOT_THERE for code in (200, 400, 404, 422)
        }
        for pixels in ("", "1,2", ",".join(["256"] * 784), ",".join(["0"] * 784)):
            assert client.post("/try/letter", data={"pixels": pixels}).status_code == 422
        assert client.post("/unknowns/hints", data={"chosen": "x,99999999999", "count": 1}).status_code == 200
        assert client.post("/try/text", data={"text": "hello"}).status_code == 409


def test_pages_carry_no_pictures_and_the_strict_policy(site: Any) -> None:
    response = httpx.get(site.url + "/unknowns/group?cluster=1", timeout=300)
    assert "data:image" not in response.text
    assert 'loading="lazy"' in response.text
    policy = response.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "<style" not in response.text
    assert " style=" not in response.text
