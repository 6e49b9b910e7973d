"""From unknown to learned to recognized, by mouse and by keyboard alone; undone and redone."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect


def test_by_mouse_the_strays_clicked_away(site: Any, tabs: Any) -> None:
    tab = tabs(site, "Ann")
    page = tab.page
    expect(page.locator(".card")).to_have_count(4)
    expect(page.locator("[data-count=pending]")).to_have_text("42")
    page.locator(".card", has_text="14").click()
    expect(page.locator(".tile")).to_have_count(14)
    expect(page.locator("#selected-count")).to_have_text("14")
    tab.ready()
    strays = page.locator(".tile")
    stray_ids = [int(strays.nth(i).get_attribute("data-id") or 0) for i in (12, 13)]
    strays.nth(12).click()
    strays.nth(13).click()
    expect(page.locator("#selected-count")).to_have_text("12")
    page.get_by_label("What is it?").fill("triangle")
    expect(page.locator("#preview")).to_contain_text("New class “triangle” from 12 samples.")
    page.get_by_role("button", name="Learn").click()

    toast = page.locator("#outcome")
    expect(toast).to_contain_text("Learned “triangle” from 12 samples.")
    expect(toast).to_contain_text("2 more samples are recognized now.")
    assert "cluster=" in page.url  # the next one is there already
    assert site.recognizes("triangle") == ["triangle"] * 3
    assert [site.world.pool.get(i).state for i in stray_ids] == ["recognized"] * 2
    expect(page.locator("[data-count=labeled]")).to_have_text("12")
    expect(page.locator("#progress")).to_contain_text("12 by you")
    tab.open("/classes")
    expect(page.locator(".card", has_text="triangle").locator("img")).to_have_count(5)

    toast.get_by_role("button", name="Undo").click()  # it is still there on this page
    expect(page.locator("#outcome")).to_contain_text("Undone. “triangle” is no longer known.")
    assert site.recognizes("triangle") == [None] * 3
    page.locator("#outcome").get_by_role("button", name="Redo").click()
    expect(page.locator("#outcome")).to_contain_text("Redone.")
    assert site.recognizes("triangle") == ["triangle"] * 3


def test_by_keyboard_alone(site: Any, tabs: Any) -> None:
    tab = tabs(site, "Kim")
    page, keys = tab.page, tab.page.keyboard
    keys.press("j")
    expect(page.locator(".card").first).to_be_focused()
    keys.press("ArrowRight")
    expect(page.locator(".card").nth(1)).to_be_focused()
    keys.press("Enter")
    expect(page.locator("h1")).to_contain_text("Cluster")
    expect(page.locator(".tile")).to_have_count(11)
    expect(page.locator(".tile").first).to_be_focused()
    for _ in range(10):
        keys.press("k" if _ == 0 else "j")
    keys.press("ArrowRight")
    keys.press("s")  # the last one is a stray
    expect(page.locator("#selected-count")).to_have_text("10")
    keys.press("Enter")
    expect(page.get_by_label("What is it?")).to_be_focused()
    keys.type("ell")
    expect(page.locator("#preview")).to_contain_text("New class “ell” from 10 samples.")
    keys.press("Enter")
    expect(page.locator("#outcome")).to_contain_text("Learned “ell” from 10 samples.")
    expect(page.locator("#outcome")).to_contain_text("1 more sample is recognized now.")
    assert site.recognizes("ell") == ["ell"] * 3

    page.wait_for_load_state("load")
    keys.press("Control+z")
    expect(page.locator("#outcome")).to_contain_text("Undone.")
    assert site.recognizes("ell") == [None] * 3
    keys.press("Control+Shift+z")
    expect(page.locator("#outcome")).to_contain_text("Redone.")
    assert site.recognizes("ell") == ["ell"] * 3

    before = page.url
    keys.press("Space")  # skip
    page.wait_for_url(lambda url: url != before)
    expect(page.locator(".tile").first).to_be_focused()


def test_undo_from_the_history(site: Any, tabs: Any) -> None:
    tab = tabs(site, "Ann")
    ids = [sample.id for sample in site.world.pool.page().samples]
    site.world.labels.label(ids[:14], "triangle", "Ann")
    site.world.labels.dismiss(ids[-2:], "bad input", "Bob")
    page = tab.open("/history")
    expect(page.locator("#events li")).to_have_count(2)
    expect(page.locator("#events li").first).to_contain_text("Bob dismissed 2 samples: bad input")
    expect(page.locator("#events li").last).to_contain_text("You labeled 14 samples as “triangle”")
    page.locator("#events li").last.get_by_role("button", name="Undo").click()
    expect(page.locator("#events li").first).to_contain_text(
        "You undid event 1: labeled 14 samples as “triangle”"
    )
    expect(page.locator("#events li").last).to_contain_text("undone")
    assert site.recognizes("triangle") == [None] * 3
    page.locator("#events li").last.get_by_role("button", name="Redo").click()
    expect(page.locator("#events li").first).to_contain_text(
        "redid event 1: labeled 14 samples as “triangle”"
    )
    assert site.recognizes("triangle") == ["triangle"] * 3
    page.get_by_role("link", name="Mine").click()
    expect(page.locator("#events")).not_to_contain_text("Bob")
