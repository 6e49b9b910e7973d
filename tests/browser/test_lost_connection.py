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
    banner = page.locator("#connection")
    expect(banner).to_contain_text("1 request kept in this browser")
    expect(banner).to_contain_text("learning “triangle” from 14 samples")
    expect(page.locator(".tile.waits")).to_have_count(14)
    assert site.world.model.version == 0
    tab.context.set_offline(False)
    expect(page.locator("#outcome")).to_contain_text("Learned “triangle” from 14 samples.")
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
    expect(page.locator("#outcome")).to_contain_text("Learned “triangle” from 14 samples.")
    expect(page.locator("#connection")).to_be_hidden()
    assert len(tries) == 2
    assert len(set(tries)) == 1
    assert (site.world.model.version, len(site.world.history.events())) == (1, 1)


def test_requests_outlive_the_page_and_can_be_taken_back(site: Any, tabs: Any) -> None:
    tab = tabs(site, "Ann")
    tab.allowed += LOST
    page = tab.open("/unknowns/group?cluster=2")
    page.route("**/v1/*", lambda route: route.abort())
    for label, following in (("first", 3), ("second", 4)):
        page.get_by_role("button", name="None").click()
        page.locator(".tile").nth(0).click()
        page.get_by_label("What is it?").fill(label)
        page.keyboard.press("Enter")
        page.wait_for_url(f"**cluster={following}")
        tab.ready()
        expect(page.locator("#connection")).to_contain_text(f"“{label}”")
    expect(page.locator("#connection")).to_contain_text("2 requests kept")
    page.locator(".tile").first.focus()
    page.keyboard.press("Control+z")
    canceled = "Canceled before it was sent: learning “second” from 1 sample."
    expect(page.locator(".toast", has_text="Canceled")).to_contain_text(canceled)
    expect(page.locator("#connection")).to_contain_text("1 request kept")
    page.unroute("**/v1/*")
    tab.open("/classes")  # another page sends it
    expect(page.locator("#outcome")).to_contain_text("Learned “first” from 1 sample.")
    assert [info.label for info in site.world.classes.all()] == ["circle", "cross", "first", "square"]


def test_requests_that_an_earlier_version_kept_are_sent(site: Any, tabs: Any) -> None:
    tab = tabs(site, "Ann")
    page = tab.open("/classes")
    request = {"id": "1", "method": "PATCH", "path": "/v1/classes/circle", "body": {"label": "disk"}}
    kept = [{**request, "title": "renaming “circle”", "late": True}]
    page.evaluate("kept => localStorage.setItem('openworld.acts', JSON.stringify(kept))", kept)
    page = tab.open("/classes")
    expect(page.locator("#outcome")).to_contain_text("Renamed to “disk”.")
    assert page.evaluate("localStorage.getItem('openworld.acts')") is None
    assert [info.label for info in site.world.classes.all()] == ["cross", "disk", "square"]


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
    expect(page.locator("#outcome")).to_contain_text("Undone. “ell” is no longer known.")
    assert tries == [2, 2]
    assert [info.label for info in site.world.classes.all()] == ["circle", "cross", "square", "triangle"]


def test_a_lost_connection_is_said_and_found_again(site: Any, tabs: Any) -> None:
    tab = tabs(site, "Ann")
    tab.allowed += [*LOST, "ERR_"]
    page = tab.open("/unknowns/group?cluster=1")
    banner = page.locator("#connection")
    expect(banner).to_be_hidden()
    tab.context.set_offline(True)
    site.service.broadcast._send(None)  # ends the streams of events; the browser cannot open them again
    expect(banner).to_contain_text("No connection to the server.")
    tab.context.set_offline(False)
    expect(banner).to_be_hidden()
