"""The report of an evaluation: a wide table scrolls in its box, and the names of its rows stay in view."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openworld.evaluation import few_shot
from openworld.evaluation.pool_experiments import write_report

NAMES = ("openworld", "relative-Mahalanobis")


@pytest.mark.parametrize("width", [1280, 390])
def test_a_wide_table_scrolls_in_its_box(browser: Any, tmp_path: Path, width: int) -> None:
    rows = [
        {"data": "letters", "recognizer": name, "n": n, "measure": measure, "value": 0.5}
        for name in NAMES
        for n in (1, 2)
        for measure in few_shot.MEASURES
    ]
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto(write_report("few-shot", rows, tmp_path).as_uri())
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    box = page.get_by_role("region", name="Results")
    assert box.evaluate("box => box.scrollWidth > box.clientWidth")
    assert "linear-gradient" in box.evaluate("box => getComputedStyle(box).backgroundImage")
    box.evaluate("box => { box.scrollLeft = box.scrollWidth; }")
    for name in NAMES:
        cell = page.get_by_role("cell", name=name).first
        assert cell.evaluate(
            "cell => Math.abs(cell.getBoundingClientRect().left"
            " - cell.closest('.wide').getBoundingClientRect().left) < 2"
        )
    page.close()
