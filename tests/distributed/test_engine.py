"""Parts side by side in this process."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from openworld.data.errors import DataError
from openworld.distributed.engine import LocalEngine, run
from openworld.samples import Extraction

Data = tuple[np.ndarray, np.ndarray]
PIXELS = Extraction("pixels")


class Meeting:
    """A part that waits for another one to be worked on at the same time."""

    side_by_side = True
    barrier = threading.Barrier(2, timeout=300)

    def __len__(self) -> int:
        return 3


def test_parts_are_worked_on_side_by_side_and_come_in_order() -> None:
    parts, done = [Meeting() for _ in range(6)], []
    found = LocalEngine(2).map(lambda part: (part.barrier.wait(), part)[1], parts, done=done.append)
    assert list(found) == parts
    assert done == [3] * 6


def test_what_was_not_begun_is_not_done_after_an_error() -> None:
    begun = []

    def work(part: Any) -> None:
        begun.append(part)
        raise ValueError("bad")

    with pytest.raises(DataError, match="bad"):
        list(LocalEngine(1).map(work, [Meeting() for _ in range(6)]))
    assert len(begun) < 3


def test_an_error_of_a_part_names_it_once() -> None:
    def broken(part: str) -> None:
        raise DataError("part 7: bad")

    with pytest.raises(DataError, match=r"^part 7: bad$"):
        run(broken, "part 7")
    with pytest.raises(DataError, match=r"^part 8: part 7: bad$"):
        run(broken, "part 8")
