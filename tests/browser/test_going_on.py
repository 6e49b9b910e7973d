"""The page goes on at once while learning happens behind; one key confirms; a second Enter does no harm."""

from __future__ import annotations

from threading import Event
from typing import Any

from playwright.sync_api import expect

from openworld.store.records import PoolFilter


def _slow_to_learn(site: Any) -> Event:
    """Have the server wait with learning until an event is set."""
    may_go_on, label = Event(), site.world.labels.label

    def slowly(*arguments: Any) -> Any:
        may_go_on.wait(30)
        return label(*arguments)

    site.world.labels.label = slowly
    return may_go_on


def test_the_next_cluster_is_there_before_the_answer(site: Any, tabs: Any) -> None:
    tab = tabs(site, "Ann")
    page = tab.open("/unknowns/group?cluster=1")
    may_go_on = _slow_to_learn(site)
    page.get_by_label("What is it?").fill("triangle")
    page.keyboard.press("Enter")
    page.wait_for_url("**cluster=2")
    toast = page.locator("#outcome")
    expect(toast).to_contain_text("Learning “triangle” from 14 samples …")
    assert site.world.model.version == 0
    page.keyboard.press("Space")  # away again: the third page sends it
    page.wait_for_url("**cluster=3")
    may_go_on.set()
    expect(toast).to_contain_text("Learned “triangle” from 14 samples.", timeout=20_000)
    assert site.recognizes("triangle") == ["triangle"] * 3
    assert len(site.world.history.events()) == 1
    page.keyboard.press("Space")
    page.wait_for_url("**cluster=4")
    expect(toast).to_contain_text("Learned “triangle”")  # and it stays, with its Undo
    toast.get_by_role("button", name="Undo").click()
    expect(toast).to_contain_text("Undone. “triangle” is no longer known.")
    assert site.recognizes("triangle") == [None] * 3


def test_undo_of_what_is_being_learned_waits_for_it(site: Any, tabs: Any) -> None:
    tab = tabs(site, "Ann")
    page = tab.open("/unknowns/group?cluster=1")
    may_go_on = _slow_to_learn(site)
    page.get_by_label("What is it?").fill("triangle")
    page.keyboard.press("Enter")
    page.wait_for_url("**cluster=2")
    expect(page.locator("#outcome")).to_contain_text("Learning “triangle”")
    page.keyboard.press("Control+z")
    may_go_on.set()
    expect(page.locator("#outcome")).to_contain_text("Undone.", timeout=20_000)
    assert [event.kind for event in site.world.history.events()] == ["undo", "label"]


def test_a_double_enter_keeps_undo(site: Any, tabs: Any) -> None:
    tab = tabs(site, "Ann")
    page = tab.open("/unknowns/group?cluster=1")
    page.get_by_label("What is it?").fill("triangle")
    page.evaluate("""() => {
        const form = document.getElementById("label-form");
        form.requestSubmit();
        form.requestSubmit();
    }""")
    page.wait_for_url("**cluster=2")
    expect(page.locator("#outcome")).to_contain_text("Learned “triangle” from 14 samples.")
    expect(page.locator("#outcome").get_by_role("button", name="Undo")).to_be_visible()
    assert len(site.world.history.events()) == 1


def test_one_key_confirms_the_suggested_class(site: Any, tabs: Any) -> None:
    nearest = site.world.labels.preview(site.world.pool.ids()[:14], "").nearest[0].label
    page = tabs(site).open("/unknowns/group?cluster=1")
    expect(page.locator("[data-do=confirm]")).to_contain_text(f"It is “{nearest}”")
    page.keyboard.press("y")
    expect(page.locator("#outcome")).to_contain_text(f"Learned “{nearest}” from 14 samples.")
    page.wait_for_url("**cluster=2")


def test_after_the_last_cluster_the_page_says_what_is_left(site: Any, tabs: Any) -> None:
    first, *others = site.world.clusters.all()
    stray = site.shapes["draw"]("cross", 1, 3)
    (alone,) = site.world.recognize(site.shapes["features"](stray) * 3).sample_ids
    assert alone is not None
    for other in others:
        site.world.labels.dismiss(site.world.pool.ids(PoolFilter(cluster=other.id)), "bad input", "Ann")
    tab = tabs(site)
    page = tab.open(f"/unknowns/group?cluster={first.id}")
    page.get_by_label("What is it?").fill("wave")
    page.keyboard.press("Enter")
    page.wait_for_url(site.url + "/")
    expect(page.locator("#done")).to_contain_text("All clusters are done")
    expect(page.locator("#outcome")).to_contain_text("Learned “wave” from 14 samples.")
    page.get_by_role("link", name="Look at them").click()
    expect(page.locator(".tile")).to_have_count(site.world.pool.count(PoolFilter(clustered=False)))
