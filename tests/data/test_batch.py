"""Batches are cut and joined without losing anything."""

from __future__ import annotations

import numpy as np

from openworld.data.batch import Batch


def test_take_and_join_are_each_other_reversed() -> None:
    whole = Batch(
        np.arange(8.0).reshape(4, 2),
        np.array(list("abcd")),
        np.array([0, 2, 3, 5]),
        ["p", "q", "r", "s"],
        [1, 2, 3, 4],
        [("t", "broken")],
        2,
        {"reading": 1.0},
    )
    assert (len(whole), whole.n_read) == (4, 7)
    first = whole.take(np.array([True, True, False, False]))
    last = whole.take(np.array([False, False, True, True]))
    joined = Batch.joined([first, last])
    for name in ("X", "y", "rows", "names", "ids"):
        assert np.array_equal(getattr(joined, name), getattr(whole, name)), name
    assert joined.failures == 2 * whole.failures  # what was left out is told by each
    assert joined.seconds == {"reading": 2.0}
    assert Batch.joined([whole]) is whole
