"""Two people at once: leases, and what the other does is seen."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect


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
    expect(bob.page.locator("#outcome")).to_contain_text("Version 1 is live")
    expect(ann.page.locator("[data-count=labelled]")).to_have_text("14")  # everyone's, live
    expect(ann.page.locator("#progress")).not_to_contain_text("by you")
    assert site.world.history.events()[0].who == "Bob"

    ann.page.keyboard.press("Control+z")  # one's own acts alone
    expect(ann.page.locator(".toast")).to_contain_text("There is nothing to undo.")
    assert site.world.model.version == 1
