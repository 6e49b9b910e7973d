"""Line charts over time."""

from __future__ import annotations

from openworld.service.metrics import Period
from openworld.service.pages.charts import columns, largest, line, share_of_unknown


def test_a_line_has_gaps_and_a_scale() -> None:
    chart = line([0.0, 1.0, None, 2.0])
    assert chart.path == "M0.0 120.0h0L200.0 60.0M600.0 0.0h0"
    assert (chart.top, chart.last) == (2.0, 2.0)
    assert line([0.5], top=1.0).path == "M0.0 60.0h0"
    assert line([]).path == line([None, None]).path == ""
    assert line([]).last is None


def test_periods_stand_where_their_time_is_and_gaps_stay_gaps() -> None:
    periods = [Period(1000.0, samples=4, unknown=1), Period(1010.0, samples=4, unknown=3), Period(1590.0)]
    found = columns(periods, now=1600.0, seconds=600)
    assert [i for i, column in enumerate(found) if column] == [0, 2, 118]
    assert [share_of_unknown(found[i]) for i in (0, 1, 2, 118)] == [0.25, None, 0.75, None]
    assert share_of_unknown(periods) == 0.5
    assert columns(periods, now=5000.0, seconds=600) == [[]] * 120
    periods[0].recognition_p99 = 0.5
    assert largest(periods, lambda period: period.recognition_p99) == 0.5
    assert largest(periods[1:], lambda period: period.recognition_p99) is None
