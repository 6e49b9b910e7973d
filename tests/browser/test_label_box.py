"""The label box: nearest classes first, search, digits, near-duplicates, and what would change."""

from __future__ import annotations

from typing import Any

import numpy as np
from playwright.sync_api import expect

from openworld.store.records import PoolFilter


def test_nearest_first_with_shares_and_digits(site: Any, tabs: Any) -> None:
    tab = tabs(site)
    page = tab.open("/unknowns/group?cluster=1")
    options = page.locator("#options [role=option]")
    expect(options).to_have_count(3)
    nearest = site.world.labels.preview(
        [sample.id for sample in site.world.pool.page().samples[:14]], ""
    ).nearest
    shown = [option.locator(".name").inner_text() for option in options.all()]
    assert shown == [near.label for near in nearest]
    expect(options.first).to_contain_text("nearest to 100 %")
    page.keyboard.press("2")
    expect(page.get_by_label("What is it?")).to_have_value(nearest[1].label)
    expect(page.locator("#preview")).to_contain_text("Adds 14 samples")
    expect(page.locator("#preview")).to_contain_text("learned from 20 samples so far")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_label("What is it?")).to_have_value(nearest[2].label)
    assert site.world.model.version == 0  # nothing was learned yet


def test_search_and_near_duplicates(site: Any, tabs: Any) -> None:
    tab = tabs(site)
    page = tab.open("/unknowns/group?cluster=1")
    label = page.get_by_label("What is it?")
    label.fill("squ")
    expect(page.locator("#options [role=option]")).to_have_count(1)
    label.fill("sqare")
    warning = page.locator("#preview .warning")
    expect(warning).to_contain_text("There is “square” already. The same thing?")
    warning.get_by_role("button").click()
    expect(label).to_have_value("square")
    expect(page.locator("#preview")).to_contain_text("Adds 14 samples to “square”")
    label.fill("unknown")
    expect(page.locator("#preview .warning")).to_contain_text("choose another name")


def test_a_class_on_top_of_another_is_warned_of(site: Any, tabs: Any) -> None:
    shapes = site.shapes
    if left := site.world.pool.ids(PoolFilter(clustered=False)):
        site.world.labels.dismiss(left, "", "ann")
    middle = shapes["features"](shapes["draw"]("circle", 20)).mean(axis=0)
    aside = np.zeros_like(middle)
    aside[-1] = 1.5 * shapes["TAU"]
    ids = site.world.recognize(np.stack([middle + aside, middle - aside])).sample_ids
    assert None not in ids  # each of them is unknown, and yet their middle is that of the circles
    page = tabs(site).open("/unknowns/group")
    expect(page.locator("h1")).to_have_text("Not in a cluster")
    page.keyboard.press("Control+a")
    expect(page.locator("#selected-count")).to_have_text("2")
    page.get_by_label("What is it?").fill("ring")
    expect(page.locator("#preview .warning")).to_contain_text("Together they look like “circle”")
