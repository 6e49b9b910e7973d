"""axe-core on every page, light and dark, wide and narrow."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

PAGES = (
    "/",
    "/unknowns/group?cluster=2",
    "/map",
    "/classes",
    "/try",
    "/dashboard",
    "/history",
    "/docs",
    "/data",
    "/recognized",
    "/people",
    "/login",
    "/no-such-page",
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(site: Any, tabs: Any, scheme: str) -> None:
    ids = [sample.id for sample in site.world.pool.page().samples]
    site.world.labels.label(ids[:14], "triangle", "local")
    site.world.labels.dismiss(ids[-1:], "bad input", "Ann")
    site.world.history.undo("Ann")
    tab = tabs(site, color_scheme=scheme, reduced_motion="reduce")
    tab.allowed.append("404 (Not Found)")
    for path in PAGES:
        page = tab.open(path)
        if path == "/try":
            page.locator("#typed").fill("O")
            page.locator(".verdict").wait_for()
        if "cluster" in path:
            page.get_by_label("What is it?").fill("sqare")
            page.locator("#preview .warning").wait_for()
        _check(page, path)
    page = tab.open("/")
    page.keyboard.press("?")
    _check(page, "keys")
    page = tab.open("/classes")
    page.locator(".card").first.click()
    page.locator("#dialog h2").wait_for()
    _check(page, "class")
    page.set_viewport_size({"width": 420, "height": 800})
    page = tab.open("/unknowns/group?cluster=2")
    page.keyboard.press("x")
    _check(page, "narrow, asking")
    assert page.evaluate("document.documentElement.scrollWidth") <= 420


def _check(page: Any, where: str) -> None:
    results = Axe().run(page)
    assert results.violations_count == 0, f"{where}: {results.generate_report()}"
