"""Charts of the dashboard."""

from __future__ import annotations

from openworld.service.pages.dashboard import line


def test_a_line_has_gaps_and_a_scale() -> None:
    chart = line([0.0, 1.0, None, 2.0])
    assert chart.path == "M0.0 120.0h0L200.0 60.0M600.0 0.0h0"
    assert (chart.top, chart.last) == (2.0, 2.0)
    assert line([0.5], top=1.0).path == "M0.0 60.0h0"
    assert line([]).path == line([None, None]).path == ""
    assert line([]).last is None
