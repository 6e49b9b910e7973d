"""Two people at once: leases, and what the other does is seen."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect

from openworld.store.records import PoolFilter


def test_two_people_never_hold_the_same_cluster(site: Any, tabs: Any) -> None:
    ann, bob = tabs(site, "Ann"), tabs(site, "Bob")
    bob.allowed.append("409 (Conflict)")
    expect(bob.page.locator(".card")).to_have_count(4)
    ann.open("/unknowns/group?cluster=1")
    chip = bob.page.locator('.card[data-id="1"] .held')
    expect(chip).to_have_text("held by Ann")  # live

    bob.open("/unknowns/group?cluster=1")
    expect(bob.page.locator("#held")).to_have_text("held by Ann")
    expect(bob.page.get_by_label("What is it?")).to_be_disabled()
    expect(bob.page.get_by_role("button", name="Learn")).to_be_disabled()
    bob.page.keyboard.press("Space")  # skips over what others hold
    bob.page.wait_for_url("**cluster=2")
    expect(bob.page.get_by_label("What is it?")).to_be_enabled()

    ann.page.keyboard.press("Space")  # and so does Ann
    ann.page.wait_for_url("**cluster=3")
    bob.open("/unknowns/group?cluster=1")
    expect(bob.page.get_by_label("What is it?")).to_be_enabled()
    expect(bob.page.locator("#held")).to_be_hidden()
    bob.page.get_by_label("What is it?").fill("triangle")
    bob.page.keyboard.press("Enter")
    expect(bob.page.locator("#outcome")).to_contain_text("Learned “triangle” from 14 samples.")
    expect(ann.page.locator("[data-count=labeled]")).to_have_text("14")  # everyone's, live
    expect(ann.page.locator("#progress")).not_to_contain_text("by you")
    assert site.world.history.events()[0].who == "Bob"

    ann.page.keyboard.press("Control+z")  # undoes one's own events only
    expect(ann.page.locator(".toast")).to_contain_text("There is nothing to undo.")
    assert site.world.model.version == 1


def test_a_cluster_that_somebody_else_named_says_so_and_asks_no_more(site: Any, tabs: Any) -> None:
    bob = tabs(site, "Bob")
    bob.allowed += ["409 (Conflict)", "404 (Not Found)"]
    site.world.clusters.lease(1, "Ann")
    bob.page.clock.install()
    page = bob.open("/unknowns/group?cluster=1")
    expect(page.locator("#held")).to_have_text("held by Ann")
    page.keyboard.press("x")  # keys do what their buttons do: nothing, while Ann holds it
    page.keyboard.press("y")
    expect(page.locator("#ask")).to_have_count(0)
    site.world.labels.label(site.world.pool.ids(PoolFilter(cluster=1)), "triangle", "Ann")
    site.world.clusters.release(1, "Ann")
    page.clock.fast_forward(6000)  # the next time that the page asks for the cluster
    expect(page.locator("#gone")).to_contain_text(
        "Nothing is left in this cluster. Ann named it “triangle” meanwhile."
    )
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.fast_forward(60_000)
    page.evaluate("fetch('/health').then(response => response.text())")
    assert not [url for url in asked if "lease" in url]
    expect(page.get_by_role("button", name="Learn")).to_be_disabled()
    page.get_by_role("link", name="Next cluster").click()
    expect(page.get_by_role("button", name="Learn")).to_be_enabled()


def test_a_held_cluster_is_not_dismissed_in_the_list(site: Any, tabs: Any) -> None:
    site.world.clusters.lease(1, "Ann")
    page = tabs(site, "Bob").open("/")
    page.locator('.card[data-id="1"] .tick').click()
    page.keyboard.press("x")
    expect(page.locator(".toast")).to_contain_text("Cluster 1 is held by Ann: deselect it first.")
    expect(page.locator("#ask")).to_have_count(0)


LEASE = "**/v1/clusters/1/lease"


def opened_and_held(tab: Any) -> Any:
    """Open the page of cluster 1 and hold it; it asks again only while the test waits for the page."""
    tab.page.route(LEASE, lambda route: route.continue_())
    with tab.page.expect_response(LEASE):
        tab.open("/unknowns/group?cluster=1")
    expect(tab.page.get_by_label("What is it?")).to_be_enabled()
    return tab.page


def test_both_name_one_cluster_and_the_second_sees_by_whom(site: Any, tabs: Any) -> None:
    bob = tabs(site, "Bob")
    bob.allowed += ["409 (Conflict)", "404 (Not Found)"]
    page = opened_and_held(bob)
    page.route(LEASE, lambda route: route.abort())  # Bob's page hears of nothing
    bob.allowed.append("ERR_FAILED")
    site.world.clusters.release(1, "Bob")  # he was idle for too long
    site.world.labels.label(site.world.pool.ids(PoolFilter(cluster=1)), "triangle", "Ann")
    page.get_by_label("What is it?").fill("wedge")
    page.keyboard.press("Enter")
    page.wait_for_url("**cluster=2")
    refusal = page.locator(".toast.error")
    expect(refusal).to_contain_text("Not done: learning “wedge” from 14 samples.")
    expect(refusal).to_contain_text("was labeled 'triangle' by Ann before, not 'wedge'.")
    assert [event.who for event in site.world.history.events()] == ["Ann"]


def test_both_give_one_cluster_the_same_name(site: Any, tabs: Any) -> None:
    bob = tabs(site, "Bob")
    bob.allowed.append("ERR_FAILED")
    page = opened_and_held(bob)
    page.route(LEASE, lambda route: route.abort())
    site.world.clusters.release(1, "Bob")
    site.world.labels.label(site.world.pool.ids(PoolFilter(cluster=1)), "triangle", "Ann")
    page.get_by_label("What is it?").fill("triangle")
    page.keyboard.press("Enter")
    expect(page.locator("#outcome")).to_contain_text(
        "Nothing was left to do: they are labeled “triangle” already."
    )
    assert [event.who for event in site.world.history.events()] == ["Ann"]


def test_what_somebody_else_names_while_one_looks_is_seen_at_once(site: Any, tabs: Any) -> None:
    bob = tabs(site, "Bob")
    bob.allowed.append("404 (Not Found)")
    page = opened_and_held(bob)
    site.world.clusters.release(1, "Bob")  # he was idle for too long
    site.world.labels.dismiss(site.world.pool.ids(PoolFilter(cluster=1)), "bad input", "Ann")
    expect(page.locator("#gone")).to_contain_text("Ann dismissed it meanwhile.")
    expect(page.get_by_label("What is it?")).to_be_disabled()


def test_undo_of_what_another_admin_undid_says_who_did(site: Any, tabs: Any) -> None:
    bob = tabs(site, "Bob")
    bob.allowed.append("422 (Unprocessable")
    site.world.labels.label(site.world.pool.ids(PoolFilter(cluster=1)), "triangle", "Ann")
    page = bob.open("/history")
    page.route("**/v1/events", lambda route: route.abort())
    expect(page.locator("#events li")).to_contain_text("labeled 14 samples as “triangle”")
    site.world.history.undo("Ann")
    page.locator("#events").get_by_role("button", name="Undo").click()
    expect(page.locator(".toast.error")).to_contain_text("Event 1 is undone already, by Ann (event 2).")
    assert [event.kind for event in site.world.history.events()] == ["undo", "label"]
