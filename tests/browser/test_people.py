"""People in a browser: the name asked for at the first visit, keys made and revoked by an admin."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect


def test_a_name_is_given_once_and_keys_are_made_and_revoked(site: Any, tabs: Any) -> None:
    tab = tabs(site)
    page = tab.open("/")
    page.get_by_label("Who are you?").fill("Ann")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".me")).to_have_text("Ann")
    expect(page.locator("#who")).to_have_count(0)

    tab.open("/people")
    page.get_by_label("Name").fill("Ann")
    page.get_by_role("button", name="Make a key").click()
    expect(page.locator("#key-owner")).to_have_text("Ann")
    secret = page.locator("#key-secret").inner_text()

    site.service.auth._cache.clear()  # as five seconds later
    tab.open("/login").get_by_label("Your key").fill(secret)
    page.keyboard.press("Enter")
    page.wait_for_url(site.url + "/")
    tab.open("/people")
    page.get_by_label("Name").fill("Bob")
    page.get_by_role("button", name="Make a key").click()
    expect(page.locator("#key-owner")).to_have_text("Bob")
    page.get_by_role("link", name="Done").click()
    bob = page.locator("tr", has_text="Bob")
    bob.get_by_role("button").click()
    bob.get_by_role("button", name="Revoke the key of Bob?").click()
    expect(bob).to_have_count(0)
    page.locator("tr", has_text="Ann").get_by_role("button").click()
    page.get_by_role("button", name="Revoke the key of Ann?").click()
    tab.allowed.append("409")
    expect(page.locator(".toast.error")).to_contain_text("last key of an admin")


def test_a_person_who_gives_no_name_is_not_asked_again(site: Any, tabs: Any) -> None:
    tab = tabs(site)
    page = tab.open("/")
    page.get_by_role("button", name="Not now").click()
    expect(page.locator("#who")).to_be_hidden()
    tab.open("/classes")
    expect(page.locator("#who")).to_have_count(0)
