"""The dashboard: figures, ranges, the operating point, exports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from openworld.service.pages.data import EXPORTS
from openworld.service.world import World


def test_the_dashboard_shows_shares_latency_drift_and_exports(client: TestClient, unknown: list[int]) -> None:
    page = client.get("/dashboard?range=600").text
    for words in (
        "Share of unknown",
        "Latency of recognition",
        "10 minutes ago",
        "too few samples",
        "review some",
    ):
        assert words in page
    assert page.count(" download>") == len(EXPORTS)
    assert 'aria-current="true">10 minutes' in page
    assert "Operating point" not in page  # its threshold is fixed
    assert client.get("/dashboard/figures?range=21600").text.count("6 hours ago") == 3
    assert client.get("/dashboard?range=5").status_code == 422


def test_a_drift_is_told_at_the_top(client: TestClient, things: Callable[..., Any]) -> None:
    known, other = things(0, 300).tolist(), things(5, 100).tolist()
    for vectors in (known, other):
        client.post("/v1/recognize", json={"vectors": vectors, "remember": False})
    figures = client.get("/dashboard/figures").text
    assert "<b>more unknown samples</b> than usual" in figures
    assert "openworld_drift_alarm 1.0" in client.get("/metrics").text


def test_the_operating_point_is_previewed_on_the_page(
    serving: Callable[..., Any], models: Callable[[str], Any], things: Callable[..., Any], tmp_path: Path
) -> None:
    with World.open(f"sqlite:///{tmp_path / 'other.db'}", models("0")) as world, serving(world) as client:
        world.recognize(things(5, 3))
        assert "Now: <b>error</b>" in client.get("/dashboard").text
        preview = client.get("/dashboard/operating-point?kind=recall&share=90").text
        assert "of 3 pending samples" in preview
        assert "Move to recall=0.9" in preview
        assert "in force" in client.get("/dashboard/operating-point?kind=error").text
