"""axe-core on every page and dialog, light and dark, wide and narrow; nothing overflows or moves on load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from openworld.service.pages.page import _NAVIGATION
from openworld.service.settings import ServiceSettings, WorldSettings

PAGES = (
    "/",
    "/unknowns/group?cluster=2",
    "/unknowns/group",
    "/unknowns/group?like=1",
    "/unknowns/group?text=camera",
    "/unknowns/group?cluster=99",
    "/recognized",
    "/unknowns/group?answer=circle",
    "/map",
    "/classes",
    "/unknowns/group?of=triangle",
    "/unknowns/group?of=square",
    "/try",
    "/dashboard",
    "/history",
    "/data",
    "/docs",
    "/people",
    "/login",
    "/no-such-page",
)
DIALOGS = {
    "keys": ("/", "[data-do=keys]", "#keys"),
    "class": ("/classes", ".card", "#dialog form"),
    "sample": ("/unknowns/group?cluster=2", "[data-do=look]", "#dialog .lightbox"),
    "merge": ("/unknowns/group?cluster=2", "[data-do=merge]", "#dialog .picks"),
    "compare": ("/dashboard", "[data-open]", "#dialog .facts"),
    "dismiss": ("/unknowns/group?cluster=2", "[data-do=dismiss]", "#ask"),
}


@pytest.fixture
def busy(serve: Any, tmp_path: Path, shapes: Any) -> Iterator[Any]:
    """A site where something of every kind has happened."""
    world = shapes["open_world"](tmp_path, WorldSettings(keep_random=1.0))
    with serve(tmp_path, ServiceSettings(clustering=False, log_level="error"), world) as site:
        site.stream(0)
        images = shapes["draw"]("circle", 4, 5)
        world.recognize(shapes["features"](images), shapes["items"](images, "camera"))
        ids = world.pool.ids()
        world.labels.label(ids[:14], "triangle", "local")
        world.labels.dismiss(ids[-1:], "bad input", "Ann")
        world.history.undo("Ann")
        yield site


def test_every_page_of_the_navigation_is_checked() -> None:
    assert {address for address, _ in _NAVIGATION} <= set(PAGES)


def test_axe_finds_nothing_on_any_page(busy: Any, tabs: Any) -> None:
    tab = tabs(busy, reduced_motion="reduce")
    tab.allowed.append("404 (Not Found)")
    problems = []
    for path in PAGES:
        page = tab.open(path)
        if path == "/try":
            page.locator("#typed").fill("O")
            page.locator(".verdict").wait_for()
        if "cluster=2" in path:
            page.get_by_label("What is it?").fill("sqare")
            page.locator("#preview .warning").wait_for()
        if path == "/docs":  # one template makes all operations: a few take a tenth of the time
            page.evaluate("[...document.querySelectorAll('.operation')].slice(8).forEach(e => e.remove())")
        problems += _problems(page, path)
    assert problems == []


def test_axe_finds_nothing_in_any_dialog(busy: Any, tabs: Any) -> None:
    tab = tabs(busy, reduced_motion="reduce")
    problems = []
    for name, (path, opener, found) in DIALOGS.items():
        page = tab.open(path)
        tab.ready()
        page.locator(opener).first.click()
        page.locator(found).first.wait_for()
        problems += _problems(page, name)
    assert problems == []


def _problems(page: Any, where: str) -> list[str]:
    found = []
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            results = Axe().run(page)
            if results.violations_count:
                found.append(f"{where}, {width}, {scheme}: {results.generate_report()}")
        wide = page.evaluate("document.documentElement.scrollWidth")
        if wide > width:
            found.append(f"{where} is {wide} pixels wide on a screen of {width}")
    page.set_viewport_size({"width": 1280, "height": 800})
    return found


SHIFTS = """
window.shifts = [];
new PerformanceObserver(list => window.shifts.push(...list.getEntries().map(entry => [
  entry.value, entry.sources.map(({ node }) => node?.id || node?.className || node?.nodeName).join(),
]))).observe({ type: "layout-shift", buffered: true });
"""


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_moves_as_a_page_loads(width: int, busy: Any, tabs: Any) -> None:
    tab = tabs(busy)
    tab.allowed.append("404")
    page = tab.page
    page.set_viewport_size({"width": width, "height": 800})
    page.add_init_script(SHIFTS)
    moved = {}
    for path in PAGES:
        tab.open(path)
        if page.locator("#label-form").count():  # suggestions arrive after the page
            page.evaluate("""() => new Promise(resolve => {
              document.addEventListener("htmx:after:settle", resolve, { once: true });
              document.getElementById("label").dispatchEvent(new Event("input"));
            })""")
        page.evaluate(
            "() => new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)))"
        )
        moved[path] = page.evaluate("window.shifts")
    # Share of the screen; a card that is drawn before its neighbors may move by some pixels.
    assert {path: shifts for path, shifts in moved.items() if sum(value for value, _ in shifts) > 0.005} == {}
