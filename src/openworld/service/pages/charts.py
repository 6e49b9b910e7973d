"""Small charts as paths of SVG, worked out on the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 600, 120


@dataclass(frozen=True)
class Chart:
    """A line over time: the path, the value at the top, and the last value."""

    path: str
    top: float
    last: float | None


def line(values: Sequence[float | None], top: float | None = None) -> Chart:
    """Return the line through values at equal steps; where a value is None the line has a gap.

    Parameters
    ----------
    values : sequence of float or None
        Not negative.
    top : float, optional
        The value at the upper edge; by default the largest.
    """
    present = [value for value in values if value is not None]
    highest = top if top is not None else max(present, default=0.0)
    step = WIDTH / max(1, len(values) - 1)
    parts: list[str] = []
    gap = True
    for i, value in enumerate(values):
        if value is not None:
            y = HEIGHT - HEIGHT * (value / highest if highest else 0.0)
            # A lone point is a line of no length: with round ends it is a dot.
            parts.append(f"{'M' if gap else 'L'}{i * step:.1f} {y:.1f}" + ("h0" if gap else ""))
        gap = value is None
    return Chart("".join(parts), highest, present[-1] if present else None)
