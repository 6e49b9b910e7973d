"""The dashboard: figures, ranges, charts, the operating point, exports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from openworld.service.events import FeedbackEvent
from openworld.service.metrics import Period
from openworld.service.pages.dashboard import EXPORTS, largest, line_chart, share_of_unknown, time_columns
from openworld.service.world import World
from openworld.store.records import ClusterDraft


def test_the_dashboard_shows_shares_latency_drift_and_exports(client: TestClient, unknown: list[int]) -> None:
    page = client.get("/dashboard?range=600").text
    for words in (
        "Share of unknown",
        "Recognition time",
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


def test_a_drift_is_reported_at_the_top(client: TestClient, things: Callable[..., Any]) -> None:
    known, other = things(0, 300).tolist(), things(5, 100).tolist()
    for vectors in (known, other):
        client.post("/v1/recognize", json={"vectors": vectors, "remember": False})
    figures = client.get("/dashboard/figures").text
    assert "<b>more unknown samples</b> than usual" in figures
    assert "openworld_drift_alarm 1.0" in client.get("/metrics").text
    assert client.post("/v1/learn", json={"vectors": other[:5], "labels": ["five"] * 5}).is_success
    assert "than usual" not in client.get("/dashboard/figures").text  # the alarm ends with the version
    assert "openworld_drift_alarm 0.0" in client.get("/metrics").text


def test_an_import_in_order_of_class_is_no_drift(client: TestClient, things: Callable[..., Any]) -> None:
    rows = [*things(0, 400), *things(5, 400)]
    table = "\n".join(["a,b,c,d", *(",".join(map(str, row)) for row in rows)])
    answer = client.post("/v1/import", files={"files": ("sorted.csv", table.encode())})
    assert '"unknown": 400' in answer.text
    figures = client.get("/dashboard/figures").text
    assert "<b>800</b> samples" in figures
    assert "than usual" not in figures


def test_the_operating_point_is_previewed_on_the_page(
    serving: Callable[..., Any], models: Callable[[str], Any], things: Callable[..., Any], tmp_path: Path
) -> None:
    with World.open(f"sqlite:///{tmp_path / 'other.db'}", models("0")) as world, serving(world) as client:
        world.recognize(things(5, 3))
        assert (
            "Current goal: <b>treat mistakes on known and unknown samples alike</b>"
            in client.get("/dashboard").text
        )
        preview = client.get("/dashboard/operating-point?kind=recall&share=90").text
        assert "of 3 pending samples" in preview
        assert "Use this goal: accept 90 % of the known samples" in preview
        assert "This is the current goal" in client.get("/dashboard/operating-point?kind=error").text


def test_the_history_names_what_was_undone_and_which_classes_were_reviewed(
    client: TestClient, world: World, unknown: list[int]
) -> None:
    (cluster,) = world.clusters.replace([ClusterDraft(unknown, unknown[0])])
    world.clusters.split(cluster, unknown[:2], "ann")
    world.history.undo("ann")
    world.history.redo("ann")
    page = client.get("/history").text
    for words in ("undid", "redid"):
        assert f"{words} event 1: split cluster {cluster}: a new cluster {cluster + 1}" in page
    reviewed = FeedbackEvent([1, 2, 3], ["ring", None, "a"], ["a", "a", "a"], [False] * 3)
    assert reviewed.describe() == "reviewed 3 samples recognized as “a”: 1 right, 2 wrong (“ring”, unknown)"
    assert FeedbackEvent([1], ["a"], ["a"], [False]).describe().endswith("1 right, 0 wrong")


# -- charts ---------------------------------------------------------------------------------------


def test_a_line_has_gaps_and_a_scale() -> None:
    chart = line_chart([0.0, 1.0, None, 2.0])
    assert chart.path == "M0.0 120.0h0L200.0 60.0M600.0 0.0h0"
    assert (chart.top, chart.last) == (2.0, 2.0)
    assert line_chart([0.5], top=1.0).path == "M0.0 60.0h0"
    assert line_chart([]).path == line_chart([None, None]).path == ""
    assert line_chart([]).last is None


def test_periods_stand_where_their_time_is_and_gaps_stay_gaps() -> None:
    periods = [Period(1000.0, samples=4, unknown=1), Period(1010.0, samples=4, unknown=3), Period(1590.0)]
    found = time_columns(periods, now=1600.0, seconds=600)
    assert [i for i, column in enumerate(found) if column] == [0, 2, 118]
    assert [share_of_unknown(found[i]) for i in (0, 1, 2, 118)] == [0.25, None, 0.75, None]
    assert share_of_unknown(periods) == 0.5
    assert time_columns(periods, now=5000.0, seconds=600) == [[]] * 120
    periods[0].recognition_p99 = 0.5
    assert largest(periods, lambda period: period.recognition_p99) == 0.5
    assert largest(periods[1:], lambda period: period.recognition_p99) is None
