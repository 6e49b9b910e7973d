"""Selecting as in a file manager; merging, splitting and dismissing clusters; the keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from openworld.store.records import ClusterDraft, PoolFilter


def _selected(page: Page) -> list[int]:
    return [
        i
        for i, tile in enumerate(page.locator(".tile").all())
        if tile.get_attribute("aria-selected") == "true"
    ]


@pytest.fixture
def tab(site: Any, tabs: Any) -> Any:
    return tabs(site)


def test_click_shift_ctrl_and_all(site: Any, tab: Any) -> None:
    page = tab.open("/unknowns/group?cluster=1")
    tiles, count = page.locator(".tile"), page.locator("#selected-count")
    expect(count).to_have_text("14")
    page.get_by_role("button", name="None").click()
    expect(count).to_have_text("0")
    tiles.nth(2).click()
    tiles.nth(6).click(modifiers=["Shift"])
    assert _selected(page) == [2, 3, 4, 5, 6]
    tiles.nth(4).click(modifiers=["Control"])
    tiles.nth(9).click(modifiers=["Control"])
    assert _selected(page) == [2, 3, 5, 6, 9]
    expect(count).to_have_text("5")
    page.keyboard.press("Control+a")
    expect(count).to_have_text("14")
    tiles.nth(0).click()
    tiles.nth(3).click(modifiers=["Shift"])  # the strays: all between get the state of the first
    assert _selected(page) == list(range(4, 14))
    page.keyboard.press("Escape")
    expect(count).to_have_text("0")
    tiles.nth(1).focus()
    page.keyboard.press("Control+Space")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    assert _selected(page) == [1, 2, 3]


def test_drag_a_box(site: Any, tab: Any) -> None:
    page = tab.open("/unknowns/group?cluster=1")
    boxes = [tile.bounding_box() for tile in page.locator(".tile").all()]

    def drag(first: int, last: int) -> None:
        a, b = boxes[first], boxes[last]
        assert a is not None
        assert b is not None
        page.mouse.move(a["x"] + 20, a["y"] + 20)
        page.mouse.down()
        page.mouse.move(b["x"] + 30, b["y"] + 30, steps=4)
        page.mouse.up()

    drag(1, 4)
    assert _selected(page) == [1, 2, 3, 4]
    page.keyboard.down("Control")
    drag(3, 5)
    page.keyboard.up("Control")
    assert _selected(page) == [1, 2, 5]
    page.locator(".tile").nth(0).click()  # a click after a drag is a click
    assert _selected(page) == [0, 1, 2, 5]


def test_more_samples_than_a_page_come_as_one_scrolls(site: Any, tab: Any) -> None:
    shapes = site.shapes
    drawn = shapes["draw"]("wave", 300, 5)
    images = np.maximum(drawn, np.random.default_rng(0).integers(0, 9, drawn.shape, dtype=np.uint8))
    ids = site.world.recognize(shapes["features"](images), shapes["items"](images, "many")).sample_ids
    (cluster,) = site.world.clusters.replace([ClusterDraft(ids, ids[0])])
    page = tab.open(f"/unknowns/group?cluster={cluster}")
    expect(page.locator("#selected-count")).to_have_text("300")
    assert page.locator(".tile").count() < 300
    page.locator(".tile").nth(3).click()
    expect(page.locator("#selected-count")).to_have_text("299")
    page.locator(".more").scroll_into_view_if_needed()
    expect(page.locator(".tile").nth(200)).to_be_attached()
    assert page.locator(".tile").nth(200).get_attribute("aria-selected") == "true"
    images_asked_for = page.evaluate(
        "performance.getEntriesByType('resource').filter(e => e.name.includes('thumbnail')).length"
    )
    assert images_asked_for < 300  # only what is near the window
    page.get_by_label("What is it?").fill("wave")
    page.keyboard.press("Enter")
    expect(page.locator("#outcome")).to_contain_text("Learned “wave” from 299 samples.")
    assert site.recognizes("wave") == ["wave"] * 3


def test_merge_in_the_list_and_undo(site: Any, tab: Any) -> None:
    page = tab.open("/")
    page.keyboard.press("m")
    expect(page.locator(".toast")).to_contain_text("Select two clusters or more")
    page.locator(".card").nth(0).locator(".tick").click()
    page.locator(".card").nth(1).click(modifiers=["Control"])
    expect(page.locator("#selected-count")).to_have_text("2")
    page.keyboard.press("m")
    expect(page.locator("#outcome")).to_contain_text("The clusters are merged")
    expect(page.locator(".card")).to_have_count(3)
    expect(page.locator(".card").first).to_contain_text("25")
    page.keyboard.press("Control+z")
    expect(page.locator(".card")).to_have_count(4)


def test_merge_and_split_in_the_workbench(site: Any, tab: Any) -> None:
    others = [cluster.size for cluster in site.world.clusters.all() if cluster.id > 2]
    page = tab.open("/unknowns/group?cluster=1")
    page.keyboard.press("m")
    page.get_by_role("dialog").get_by_role("button", name="Cluster 2").click()
    expect(page.locator("#selected-count")).to_have_text("25")
    expect(page.locator(".tile").first).to_be_focused()
    page.keyboard.press("Escape")
    for i in (0, 1, 2):
        page.locator(".tile").nth(i).click()
    page.keyboard.press("p")
    expect(page.locator("#outcome")).to_contain_text("3 samples split off into a new cluster")
    expect(page.locator(".tile")).to_have_count(22)
    assert sorted(cluster.size for cluster in site.world.clusters.all()) == sorted([3, *others, 22])


def test_a_loose_cluster_is_not_selected_and_can_be_split_in_two(site: Any, tab: Any) -> None:
    clusters = site.world.clusters.all()
    first, second = (site.world.pool.ids(PoolFilter(cluster=cluster.id)) for cluster in clusters[:2])
    keep = [ClusterDraft(site.world.pool.ids(PoolFilter(cluster=c.id)), c.medoid, c.id) for c in clusters[2:]]
    loose = ClusterDraft([*first, *second], first[0], clusters[0].id, 0.4, 0.5, True)
    site.world.clusters.replace([loose, *keep])
    page = tab.open("/")
    expect(page.locator(".chip.loose")).to_have_count(1)
    page.select_option("#order", "uncertain")
    expect(page.locator(".card").first).to_contain_text("loose")
    page.locator(".card").first.click()
    expect(page.locator("#loose")).to_contain_text("probably holds several classes")
    expect(page.locator("#selected-count")).to_have_text("0")
    page.get_by_label("What is it?").fill("both")
    page.keyboard.press("Enter")
    page.get_by_role("button", name=f"Select all {len(first) + len(second)}").click()
    expect(page.locator("#selected-count")).to_have_text(str(len(first) + len(second)))
    page.get_by_role("button", name="Split in two").click()
    expect(page.locator("#outcome")).to_contain_text("split off into a new cluster")
    sizes = [cluster.size for cluster in site.world.clusters.all()]
    assert sum(sizes) == sum(cluster.size for cluster in clusters)
    assert len(sizes) == 4


def test_finer_and_coarser(site: Any, tab: Any) -> None:
    page = tab.open("/")
    page.get_by_role("button", name="Finer").click()
    expect(page.locator(".toast")).to_contain_text("Clustering again, finer")
    page.get_by_role("button", name="Coarser").click()
    expect(page.locator("#granularity")).to_have_attribute("data-finer", "0")


def test_clusters_that_a_person_asked_for_are_shown_at_once(site: Any, tab: Any) -> None:
    """Others wait until nothing is selected and no message is shown."""
    page = tab.open("/")
    page.keyboard.press("Control+a")
    expect(page.locator('#grid [aria-selected="true"]').first).to_be_visible()
    page.get_by_role("button", name="Coarser").click()
    expect(page.locator(".toast")).to_contain_text("Clustering again, coarser")
    site.service.clustering.run_once()
    expect(page.locator('#grid [aria-selected="true"]')).to_have_count(0)
    expect(page.locator(".toast")).to_have_count(0)
    expect(page.locator("#granularity")).to_have_attribute("data-finer", "-1")


def test_x_asks_then_dismisses_and_can_be_undone(site: Any, tab: Any) -> None:
    page = tab.open("/unknowns/group?cluster=2")
    page.keyboard.press("x")
    ask = page.locator("#ask")
    expect(ask).to_contain_text("Dismiss 11 samples? It can be undone.")
    assert site.world.labels.progress("local").dismissed == 0
    page.keyboard.press("Escape")
    expect(ask).to_have_count(0)
    expect(page.locator(".tile").first).to_be_focused()
    page.keyboard.press("x")
    expect(ask.get_by_role("button", name="Not a class")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#outcome")).to_contain_text("11 samples dismissed.")
    assert site.world.labels.progress("local").dismissed == 11
    assert site.world.history.events()[0].payload["reason"] == "not a class"
    page.locator("#outcome").get_by_role("button", name="Undo").click()
    expect(page.locator("[data-count=dismissed]")).to_have_text("0")
    assert site.world.labels.progress("local").pending == 42


def test_question_mark_shows_the_keys(site: Any, tab: Any) -> None:
    page = tab.open("/")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_be_visible()
    for words in ("suggested label", "dismiss", "skip", "merge", "search", "undo"):
        expect(dialog).to_contain_text(words)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("camera ell")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("“camera ell”")
    expect(page.locator(".tile")).to_have_count(11)


def test_a_sample_closely_and_accepted_as_known(site: Any, tab: Any) -> None:
    page = tab.open("/unknowns/group?cluster=1")
    page.locator(".tile").nth(1).focus()
    page.keyboard.press("i")
    dialog = page.locator("#dialog")
    expect(dialog).to_contain_text("Already a known class? Choose it")
    expect(dialog).to_contain_text("camera triangle")
    dialog.get_by_role("button", name="square", exact=True).click()
    expect(page.locator("#outcome")).to_contain_text("Learned “square” from 1 sample.")
    expect(page.locator(".tile")).to_have_count(13)
    assert site.world.history.events()[0].kind == "accept"
    page.locator(".tile").nth(0).dblclick()
    dialog.get_by_role("link", name="Find similar").click()
    expect(page.locator("h1")).to_contain_text("Like sample")
    assert page.locator(".tile").count() > 13


def test_the_lightbox_by_keyboard(site: Any, tab: Any) -> None:
    page = tab.open("/unknowns/group?cluster=1")
    ids = [tile.get_attribute("data-id") for tile in page.locator(".tile").all()]
    page.locator(".tile").nth(2).locator(".look").click()
    dialog = page.get_by_role("dialog", name="Details")
    expect(dialog.locator(f"[data-sample='{ids[2]}'] img")).to_be_visible()
    expect(page.locator("#selected-count")).to_have_text("14")  # looking does not deselect
    page.keyboard.press("ArrowRight")
    expect(dialog.locator(f"[data-sample='{ids[3]}']")).to_be_visible()
    expect(dialog.get_by_role("button", name="Close")).to_be_focused()
    page.keyboard.press("s")
    expect(dialog.locator("#look-selected")).to_have_attribute("aria-pressed", "false")
    for _ in range(12):
        page.keyboard.press("Tab")
        inside = page.evaluate(
            "document.activeElement.closest('dialog') !== null || document.activeElement === document.body"
        )
        assert inside
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert _selected(page) == [i for i in range(14) if i != 3]


def test_the_size_of_the_pictures_is_kept(site: Any, tab: Any) -> None:
    page = tab.open("/unknowns/group?cluster=1")
    before = page.locator(".tile").first.bounding_box()
    for _ in range(4):
        page.keyboard.press("+")
    larger = page.locator(".tile").first.bounding_box()
    assert before is not None
    assert larger is not None
    assert larger["width"] > 1.5 * before["width"]
    tab.open("/unknowns/group?cluster=2")
    again = page.locator(".tile").first.bounding_box()
    assert again is not None
    assert again["width"] == pytest.approx(larger["width"], rel=0.05)
    opacity = page.locator(".tile img").first.evaluate("image => getComputedStyle(image).opacity")
    page.get_by_role("button", name="None").click()
    assert (
        opacity == page.locator(".tile img").first.evaluate("image => getComputedStyle(image).opacity") == "1"
    )
