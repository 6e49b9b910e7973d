"""The dashboard in a browser: the operating point is previewed, moved and undone."""

from __future__ import annotations

from typing import Any

import numpy as np
from playwright.sync_api import expect

from openworld import OpenWorldRecognizer
from openworld.service.settings import ServiceSettings
from openworld.service.world import World


def _world(folder: Any) -> World:
    random = np.random.default_rng(5)
    centers = random.normal(size=(12, 6)) * 2.2
    X = np.repeat(centers[:6], 20, axis=0) + random.normal(size=(120, 6))
    model = OpenWorldRecognizer(n_lifted=0, refresh_growth=0.1).fit(X, np.repeat(list("abcdef"), 20))
    world = World.open(f"sqlite:///{folder / 'world.db'}", model)
    world.recognize(np.repeat(centers, 15, axis=0) + random.normal(size=(180, 6)))
    return world


def test_the_operating_point_is_previewed_moved_and_undone(serve: Any, tabs: Any, tmp_path: Any) -> None:
    settings = ServiceSettings(clustering=False, log_level="error")
    with serve(tmp_path, settings, _world(tmp_path)) as site:
        pending = site.world.pool.count()
        page = tabs(site).open("/dashboard")
        page.get_by_label("Goal").select_option("recall")
        slider = page.get_by_label("Share", exact=True)
        slider.fill("99")
        expect(page.locator("#point-percent")).to_have_text("99 %")
        expect(page.locator("#point-preview")).to_contain_text(f"of {pending} pending samples")
        page.get_by_role("button", name="Use this goal").click()
        expect(page.locator("#outcome")).to_contain_text("Moved the operating point to recall=0.99.")
        expect(page.get_by_text("Current goal: accept 99 % of the known samples")).to_be_visible()
        site.world.rescorer.wait()
        assert site.world.pool.count() < pending
        page.locator("#outcome").get_by_role("button", name="Undo").click()
        expect(page.get_by_text("Current goal: treat mistakes")).to_be_visible()
