"""The list of clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openworld.service.pages.unknowns import _options, next_free
from openworld.service.settings import WorldSettings
from openworld.service.world import World
from openworld.store.records import ClassDistance, PoolCluster


def test_the_next_cluster_is_one_that_nobody_else_holds() -> None:
    def cluster(number: int, holder: str | None = None) -> PoolCluster:
        return PoolCluster(number, 0, 1, False, holder, None)

    clusters = [cluster(1), cluster(2, "Ann"), cluster(3, "Bob"), cluster(4)]
    assert [found and found.id for i in (1, 2, 3, 4, 0) if (found := next_free(clusters, i, "Bob"))] == [
        3,
        3,
        4,
        1,
        1,
    ]
    assert next_free(clusters[1:2], 7, "Bob") is None
    assert next_free([cluster(5)], 5, "Bob") is None


def test_suggestions_begin_with_the_class_that_most_samples_are_nearest_to() -> None:
    nearest = [ClassDistance("lamp", 1.0), ClassDistance("buddha", 1.1), ClassDistance("bonsai", 1.2)]
    options = _options(nearest, ["tick"], "", {"buddha": 0.4, "bonsai": 0.2})
    assert [option.label for option in options] == ["buddha", "bonsai", "lamp", "tick"]


def test_the_class_under_review_is_not_suggested_as_its_own_correction(
    serving: Any, models: Any, things: Any, tmp_path: Path
) -> None:
    settings = WorldSettings(keep_random=1.0)
    with (
        World.open(f"sqlite:///{tmp_path / 'w.db'}", models("0"), settings) as world,
        serving(world) as client,
    ):
        world.recognize(things(0, 3))
        hints = client.post("/unknowns/hints", data={"answer": "a", "count": 3}).text
        moving = client.post("/unknowns/hints", data={"of": "a", "chosen": "1", "count": 1}).text
    assert "3 recognized samples selected" in hints
    assert 'data-do="confirm"' not in hints
    for found in (hints, moving):
        assert "unlike every known class" not in found
        assert 'data-label="b"' in found
        assert 'data-label="a"' not in found


def test_the_page_of_a_class_says_how_far_back_it_looks_for_corrections(
    client: Any, unknown: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    client.post("/v1/label", json={"sample_ids": unknown[:3], "label": "five"})
    client.post("/v1/label", json={"sample_ids": unknown[3:], "label": "six"})
    assert "In the newest" not in client.get("/unknowns/group?of=five").text
    monkeypatch.setattr("openworld.service.pages.unknowns.NEWEST", 1)
    assert "In the newest 1 events" in client.get("/unknowns/group?of=five").text
