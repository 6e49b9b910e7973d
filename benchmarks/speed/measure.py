"""What the speed benchmarks share: timing and real data."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter


def best_time(
    action: Callable[[], object], repeats: int = 5, clock: Callable[[], float] = perf_counter
) -> float:
    """Return the shortest of several times: on a shared machine the one least disturbed."""
    times = []
    for _ in range(repeats):
        start = clock()
        action()
        times.append(clock() - start)
    return min(times)


def best_times(
    actions: list[Callable[[], object]], repeats: int = 7, clock: Callable[[], float] = perf_counter
) -> list[float]:
    """Time several actions in turn, so that a slow moment of the machine hits all of them."""
    best = [float("inf")] * len(actions)
    for _ in range(repeats):
        best = [min(old, best_time(action, 1, clock)) for old, action in zip(best, actions, strict=True)]
    return best


def real_data(name: str) -> Path:
    """Return the path of a real data file, or say how to give it."""
    folder = os.environ.get("OPENWORLD_DATA")
    if folder is None or not (Path(folder) / name).is_file():
        raise SystemExit(f"This benchmark needs {name}: set OPENWORLD_DATA to the folder that has it.")
    return Path(folder) / name
