"""Text that people stored is inert on every page."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from playwright.sync_api import expect

EVIL = """<script>window.pwned=1</script><img src=x onerror=window.pwned=1>"'{{7*7}}"""
PAGES = ("/", "/map", "/classes", "/try", "/dashboard", "/history", "/login")


def test_a_script_as_a_name_is_text_on_every_page(site: Any, tabs: Any) -> None:
    tab = tabs(site, EVIL[:60])
    page = tab.page
    shapes, world = site.shapes, site.world
    ids = [sample.id for sample in world.pool.page().samples]
    label = EVIL
    world.labels.label(ids[:10], label, EVIL[:60])
    world.classes.describe(label, EVIL, EVIL[:60])
    world.labels.dismiss(ids[14:16], EVIL, EVIL[:60])
    images = shapes["draw"]("bars", 3, 8)
    from openworld.store.records import SampleContent

    world.recognize(shapes["features"](images), [SampleContent("text", EVIL, EVIL)] * 3)
    page.goto("about:blank")  # the list of clusters would load itself again while the test leaves it
    site.service.clustering.run_once()
    bars = world.pool.page(limit=1000).samples[-1]
    paths = [
        *PAGES,
        f"/unknowns/group?cluster={bars.cluster_id}",
        f"/unknowns/group?text={quote(EVIL)}",
        f"/classes?search={quote(EVIL)}",
        f"/classes/one?label={quote(EVIL)}",
        f"/unknowns/sample/{bars.id}",
    ]
    for path in paths:
        tab.open(path)
        page.wait_for_timeout(100)
        assert page.evaluate("window.pwned") is None, path
        assert page.locator("img[src=x]").count() == 0, path
    tab.open("/history")
    expect(page.locator("#events")).to_contain_text(EVIL[:27])
    tab.open("/classes")
    page.locator(".card", has=page.locator(".title", has_text="window.pwned")).click()
    expect(page.locator("#dialog h2")).to_have_text(EVIL)
    page.locator("#dialog").get_by_role("button", name="Close").click()

    page = tab.open("/unknowns/group?cluster=2")
    page.get_by_label("What is it?").fill(EVIL)
    expect(page.locator("#options")).to_contain_text("window.pwned")
    page.keyboard.press("Enter")
    expect(page.locator("#outcome")).to_contain_text("Learned “<script>")
    page.keyboard.press("Control+z")
    expect(page.locator("#outcome")).to_contain_text("Undone")
    assert page.evaluate("window.pwned") is None


def test_the_policy_refuses_inline_script(site: Any, tabs: Any) -> None:
    tab = tabs(site)
    tab.allowed.append("Content Security Policy")
    page = tab.open("/")
    page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "window.pwned = 1";
        document.body.append(script);
    }""")
    assert page.evaluate("window.pwned") is None
