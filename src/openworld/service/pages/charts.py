"""Line charts over time, as SVG paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from openworld.service.metrics import Period

WIDTH, HEIGHT = 600, 120
_COLUMNS = 120


@dataclass(frozen=True)
class Chart:
    """A line chart as an SVG path, the value at its top, and its last value."""

    path: str
    top: float
    last: float | None


def line(values: Sequence[float | None], top: float | None = None) -> Chart:
    """Return the line through values at equal steps, with a gap where a value is None.

    Parameters
    ----------
    values : sequence of float or None
        Not negative.
    top : float, optional
        The value at the upper edge; by default the largest value.
    """
    present = [value for value in values if value is not None]
    highest = top if top is not None else max(present, default=0.0)
    step = WIDTH / max(1, len(values) - 1)
    parts: list[str] = []
    gap = True
    for i, value in enumerate(values):
        if value is not None:
            y = HEIGHT - HEIGHT * (value / highest if highest else 0.0)
            # A single point is a line of length 0: its round ends make it a dot.
            parts.append(f"{'M' if gap else 'L'}{i * step:.1f} {y:.1f}" + ("h0" if gap else ""))
        gap = value is None
    return Chart("".join(parts), highest, present[-1] if present else None)


def columns(periods: Sequence[Period], now: float, seconds: float) -> list[list[Period]]:
    """Return the periods of the last seconds in equal columns of time, oldest first; some may be empty."""
    found: list[list[Period]] = [[] for _ in range(_COLUMNS)]
    width = seconds / _COLUMNS
    for period in periods:
        column = int((period.at - (now - seconds)) // width)
        if 0 <= column < _COLUMNS:
            found[column].append(period)
    return found


def share_of_unknown(column: Sequence[Period]) -> float | None:
    """Return the share of unknown samples in a column, or None without samples."""
    n_samples = sum(period.samples for period in column)
    return sum(period.unknown for period in column) / n_samples if n_samples else None


def largest(column: Sequence[Period], value: Callable[[Period], float]) -> float | None:
    """Return the largest value in a column, or None where there is none."""
    return max((value(period) for period in column if value(period)), default=None)
