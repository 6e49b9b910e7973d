"""A lost connection: what was done is kept in the browser, sent again, and seen by the person."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect

LOST = ["ERR_INTERNET_DISCONNECTED", "Failed to fetch", "ERR_FAILED", "NetworkError"]


def test_nothing_is_lost_and_all_is_sent_again(site: Any, tabs: Any) -> None:
    tab = tabs(site, "Ann")
    tab.allowed += LOST
    page = tab.open("/unknowns/group?cluster=1")
    expect(page.locator("#options [role=option]")).to_have_count(3)
    tab.context.set_offline(True)
    page.get_by_label("What is it?").fill("triangle")
    page.keyboard.press("Enter")
    banner = page.locator("#waiting")
    expect(banner).to_contain_text("No connection. 1 request kept in this browser")
    expect(banner).to_contain_text("label 14 samples “triangle”")
    expect(page.locator(".tile.waits")).to_have_count(14)
    assert site.world.model.version == 0
    tab.context.set_offline(False)
    expect(page.locator("#outcome")).to_contain_text("Version 1 is live: 1 class added, 14 samples learned")
    expect(banner).to_be_hidden()
    assert site.recognizes("triangle") == ["triangle"] * 3


def test_an_answer_that_got_lost_does_no_harm(site: Any, tabs: Any) -> None:
    tab = tabs(site, "Ann")
    tab.allowed += LOST
    page = tab.open("/unknowns/group?cluster=1")
    tries: list[str] = []

    def lose_the_first_answer(route: Any) -> None:
        tries.append(route.request.headers["idempotency-key"])
        if len(tries) == 1:
            route.fetch()  # the server does it, the browser never hears of it
            route.abort()
        else:
            route.continue_()

    page.route("**/v1/label", lose_the_first_answer)
    page.get_by_label("What is it?").fill("triangle")
    page.keyboard.press("Enter")
    expect(page.locator("#waiting")).to_contain_text("1 request kept")
    expect(page.locator("#outcome")).to_contain_text("Version 1 is live: 1 class added, 14 samples learned")
    expect(page.locator("#waiting")).to_be_hidden()
    assert len(tries) == 2
    assert len(set(tries)) == 1
    assert (site.world.model.version, len(site.world.history.events())) == (1, 1)


def test_acts_outlive_the_page_and_can_be_taken_back(site: Any, tabs: Any) -> None:
    tab = tabs(site, "Ann")
    tab.allowed += LOST
    page = tab.open("/unknowns/group?cluster=2")
    page.route("**/v1/*", lambda route: route.abort())
    for label in ("first", "second"):
        page.locator(".tile:not(.waits)").nth(0).click()
        if label == "first":
            page.get_by_role("button", name="None").click()
            page.locator(".tile").nth(0).click()
        page.get_by_label("What is it?").fill(label)
        page.keyboard.press("Enter")
        expect(page.locator("#waiting")).to_contain_text(f"“{label}”")
    expect(page.locator("#waiting")).to_contain_text("2 requests kept")
    page.locator(".tile:not(.waits)").first.focus()
    page.keyboard.press("Control+z")
    expect(page.locator(".toast")).to_contain_text("Canceled before it was sent: label 1 sample “second”.")
    expect(page.locator("#waiting")).to_contain_text("1 request kept")
    page.unroute("**/v1/*")
    tab.open("/classes")  # another page sends it
    expect(page.locator("#outcome")).to_contain_text("1 class added, 1 sample learned")
    assert [info.label for info in site.world.classes.all()] == ["circle", "cross", "first", "square"]


def test_an_undo_whose_answer_got_lost_undoes_once(site: Any, tabs: Any) -> None:
    ids = [sample.id for sample in site.world.pool.page().samples]
    site.world.labels.label(ids[:14], "triangle", "Ann")
    site.world.labels.label(ids[14:25], "ell", "Ann")
    tab = tabs(site, "Ann")
    tab.allowed += LOST
    page = tab.open("/history")
    tries: list[int] = []

    def lose_the_first_answer(route: Any) -> None:
        tries.append(route.request.post_data_json["event_id"])
        if len(tries) == 1:
            route.fetch()
            route.abort()
        else:
            route.continue_()

    page.route("**/v1/undo", lose_the_first_answer)
    page.keyboard.press("Control+z")
    expect(page.locator("#outcome")).to_contain_text("Undone. Version 3 is live: 1 class removed")
    assert tries == [2, 2]
    assert [info.label for info in site.world.classes.all()] == ["circle", "cross", "square", "triangle"]
