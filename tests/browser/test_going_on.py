"""The page goes on at once while learning happens behind; one key confirms; a second Enter does no harm."""

from __future__ import annotations

from threading import Event
from typing import Any

import numpy as np
from playwright.sync_api import expect

from openworld.store.records import ClusterDraft, PoolFilter


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
    expect(toast).to_contain_text("Learned “triangle” from 14 samples.")
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
    expect(page.locator("#outcome")).to_contain_text("Undone.")
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
    """A class is suggested where the samples together are recognized as it; else the key does nothing."""
    shapes = site.shapes
    middle = shapes["features"](shapes["draw"]("circle", 20)).mean(axis=0)
    aside = np.zeros_like(middle)
    aside[-1] = 1.5 * shapes["TAU"]
    circles = site.world.recognize(np.stack([middle + aside, middle - aside])).sample_ids
    triangles = site.world.pool.ids(PoolFilter(cluster=1))
    new, known = site.world.clusters.replace(
        [ClusterDraft(triangles, triangles[0]), ClusterDraft(circles, circles[0])]
    )
    page = tabs(site).open("/")
    expect(page.locator(f'.card[data-id="{known}"] footer')).to_contain_text("perhaps circle")
    expect(page.locator(f'.card[data-id="{new}"] footer')).to_contain_text("new")

    page.goto(f"{site.url}/unknowns/group?cluster={new}")
    expect(page.locator("#preview")).to_contain_text("14 samples selected, unlike every known class.")
    expect(page.locator("[data-do=confirm]")).to_have_count(0)
    page.keyboard.press("y")
    expect(page.locator(".toast")).to_contain_text("No known class is suggested")

    page.goto(f"{site.url}/unknowns/group?cluster={known}")
    expect(page.locator("[data-do=confirm]")).to_contain_text("It is “circle”")
    expect(page.locator("#options li", has_text="circle")).to_contain_text("suggested")
    page.keyboard.press("y")
    expect(page.locator("#outcome")).to_contain_text("Learned “circle” from 2 samples.")
    page.wait_for_url(f"**cluster={new}")
    assert [event.kind for event in site.world.history.events()] == ["label"]


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


def test_undoing_a_split_says_nothing_of_the_version_before(site: Any, tabs: Any) -> None:
    tab = tabs(site, "Ann")
    page = tab.page
    first = site.world.pool.ids(PoolFilter(cluster=1))
    site.world.labels.label(first[:12], "triangle", "Ann")
    rescored = site.world.rescorer.wait(timeout=60)
    assert (rescored.model_version, rescored.recognized) == (1, 2)
    site.world.clusters.split(2, site.world.pool.ids(PoolFilter(cluster=2))[:3], "Ann")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.removeprefix(site.url)))
    page.clock.install()
    tab.open("/unknowns/group?cluster=2")
    page.keyboard.press("Control+z")
    outcome = page.locator("#outcome")
    expect(outcome).to_contain_text("Undone.")
    tab.ready()
    page.clock.run_for(1000)  # far more than the page waits before it asks what a new version recognizes
    page.evaluate("fetch('/ready').then(response => response.text())")
    assert "/ready" in asked
    assert not [path for path in asked if path.endswith("/rescored")]
    expect(outcome.locator("span")).to_have_text("Undone.")


def test_an_outcome_says_what_became_known_and_what_became_unknown(site: Any, tabs: Any) -> None:
    tab = tabs(site, "Ann")
    page = tab.page
    counts = {"model_version": 1, "recognized": 3, "returned": 20}
    page.route("**/v1/versions/*/rescored", lambda route: route.fulfill(json=counts))
    tab.open("/unknowns/group?cluster=1").get_by_label("What is it?").fill("triangle")
    page.keyboard.press("Enter")
    outcome = page.locator("#outcome")
    words = "3 more samples are recognized now; 20 recognized ones are unknown again."
    expect(outcome).to_contain_text(f"from 14 samples. {words}")
    counts.update(recognized=0, returned=1)
    outcome.get_by_role("button", name="Undo").click()
    expect(outcome).to_contain_text("no longer known. 1 recognized sample is unknown again.")


def test_samples_dismissed_as_known_unknowns_are_called_dismissed(site: Any, tabs: Any) -> None:
    tab = tabs(site, "Ann")
    page = tab.page
    learned = {"event_id": 1, "kind": "dismiss_unknown", "model_version": 0, "samples": 14}
    page.route("**/v1/dismiss", lambda route: route.fulfill(json=learned))
    tab.open("/unknowns/group?cluster=1").keyboard.press("x")
    page.locator("#ask").get_by_role("button", name="Not a class").click()
    expect(page.locator("#outcome")).to_contain_text("14 samples dismissed.")
