"""What was recognized can be seen, confirmed and corrected."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from sqlalchemy import update

from openworld.service.quality import Review
from openworld.service.settings import ServiceSettings, WorldSettings
from openworld.store.records import PoolFilter
from openworld.store.tables import samples


@pytest.fixture
def reviewed(serve: Any, tmp_path: Path, shapes: Any) -> Iterator[Any]:
    """A site that keeps all recognized samples: eight circles and six squares."""
    world = shapes["open_world"](tmp_path, WorldSettings(keep_random=1.0))
    settings = ServiceSettings(clustering=False, log_level="error")
    with serve(tmp_path, settings, world) as site:
        for shape, n in (("circle", 8), ("square", 6)):
            images = shapes["draw"](shape, n, 5)
            world.recognize(shapes["features"](images), shapes["items"](images, "camera"))
        yield site


def test_confirm_correct_and_undo(reviewed: Any, tabs: Any) -> None:
    world, page = reviewed.world, tabs(reviewed).open("/recognized")
    expect(page.locator(".figures")).to_contain_text("review some to estimate the accuracy")
    page.get_by_role("link", name="circle, 8 samples").click()
    expect(page.get_by_role("heading", name="Recognized as “circle”")).to_be_visible()
    expect(page.locator("#selected-count")).to_have_text("0")
    tiles = page.locator("#grid .tile")
    expect(tiles).to_have_count(8)
    ids = tiles.evaluate_all("tiles => tiles.map(tile => Number(tile.dataset.id))")
    memberships = [world.pool.get(i).membership for i in ids]
    assert memberships == sorted(memberships)

    tiles.nth(0).click()
    tiles.nth(1).click()
    page.keyboard.press("u")
    expect(page.locator("#outcome")).to_contain_text("Returned 2 samples to the unknown.")
    expect(tiles).to_have_count(6)
    assert world.pool.count() == 2

    tiles.nth(0).click()
    page.get_by_label("Wrong: it is").fill("ring")
    page.keyboard.press("Enter")
    expect(tiles).to_have_count(5)
    assert "ring" in [info.label for info in world.classes.all()]

    page.keyboard.press("Escape")
    page.locator("#grid .tile").first.focus()
    page.keyboard.press("Control+a")
    page.keyboard.press("r")
    expect(page.get_by_text("Back to the recognized classes")).to_be_visible()
    overall, *_ = world.recognized.quality()
    assert (overall.right.count, overall.right.of, overall.wrong_accepts.count) == (5, 8, 2)
    page.get_by_text("Back to the recognized classes").click()
    expect(page.locator(".figures")).to_contain_text("62 % right")

    page.get_by_role("button", name="Undo", exact=True).first.click()
    expect(page.get_by_role("link", name="circle, 5 samples")).to_be_visible()
    assert world.pool.count(PoolFilter(state="recognized", answer="circle")) == 5
    assert world.recognized.quality()[0].right.of == 3


def test_the_random_samples_are_reviewed_as_they_came(reviewed: Any, tabs: Any) -> None:
    world, page = reviewed.world, tabs(reviewed).open("/recognized")
    page.get_by_role("link", name="Review 14 random samples").click()
    expect(page.locator("h1")).to_have_text("Drawn at random")
    tiles = page.locator(".tile")
    expect(tiles).to_have_count(14)
    ids = tiles.evaluate_all("tiles => tiles.map(tile => Number(tile.dataset.id))")
    assert ids == sorted(ids)
    expect(tiles.nth(0).locator(".called")).to_have_text("circle")
    expect(tiles.nth(13).locator(".called")).to_have_text("square")
    tiles.nth(0).click()
    page.keyboard.press("u")
    expect(tiles).to_have_count(13)
    page.keyboard.press("Control+a")
    page.keyboard.press("r")
    expect(page.locator(".empty")).to_contain_text("No random samples are waiting for review")
    overall, *_ = world.recognized.quality()
    assert (overall.right.count, overall.right.of, overall.wrong_accepts.count) == (13, 14, 1)


def test_right_confirms_the_class_that_the_page_shows(reviewed: Any, tabs: Any) -> None:
    world, page = reviewed.world, tabs(reviewed).open("/unknowns/group?answer=circle")
    tiles = page.locator("#grid .tile")
    expect(tiles).to_have_count(8)
    ids = tiles.evaluate_all("tiles => tiles.map(tile => Number(tile.dataset.id))")
    world.recognized.feedback([Review(ids[0], False, "ring")], "ben")
    with world.event_log.database.write() as connection:  # the model has changed its mind since
        connection.execute(update(samples).where(samples.c.id == ids[1]).values(answer="ring"))
    tiles.nth(1).click()
    page.keyboard.press("r")
    expect(page.locator("#outcome")).to_contain_text("Learned 1 sample as “circle”.")
    assert world.pool.get(ids[1]).label == "circle"


def test_an_empty_list_has_the_width_of_a_phone(reviewed: Any, tabs: Any) -> None:
    page = tabs(reviewed).open("/unknowns/group?answer=nothing")
    page.set_viewport_size({"width": 390, "height": 844})
    box = page.locator(".empty").bounding_box()
    assert box is not None
    assert box["width"] > 300


def test_a_long_name_is_shown_whole(reviewed: Any, tabs: Any) -> None:
    name = "a_very_long_name_of_a_class_without_any_blank_in_it"
    reviewed.world.classes.rename("circle", name, "ann")
    with reviewed.world.event_log.database.write() as connection:
        connection.execute(update(samples).where(samples.c.answer == "circle").values(answer=name))
    page = tabs(reviewed).open("/recognized")
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        shown = page.locator(".card footer b", has_text=name)
        expect(shown).to_have_text(name)
        inside = "b => b.getBoundingClientRect().right <= b.closest('.card').getBoundingClientRect().right"
        assert shown.evaluate(inside)
