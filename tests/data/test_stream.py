"""Batches, streams in memory, and reading ahead."""

from __future__ import annotations

from threading import Event

import numpy as np
import pytest

from openworld.data.errors import DataError
from openworld.data.stream import Batch, read_ahead, require_samples
from openworld.data.tables import in_memory

N, D = 103, 4


def test_read_ahead_gives_all_in_order_and_passes_errors_on() -> None:
    def broken():
        yield 1
        raise OSError("gone")

    assert list(read_ahead(iter(range(10)))) == list(range(10))
    ahead = read_ahead(broken())
    assert next(ahead) == 1
    with pytest.raises(OSError, match="gone"):
        next(ahead)


def test_read_ahead_can_be_closed_by_the_thread_that_reads() -> None:
    """The garbage collector does that where an error ended the loop over it."""
    suspended, closed = Event(), Event()

    def items():
        yield 1
        assert suspended.wait(60)
        ahead.close()
        closed.set()
        yield 2

    ahead = read_ahead(items())
    assert next(ahead) == 1
    suspended.set()
    assert closed.wait(60)
    assert list(ahead) == []


def test_arrays_are_a_stream_with_one_part() -> None:
    X, y = np.arange(6.0).reshape(3, 2), np.array(list("abc"))
    stream = in_memory("mine", X, y, feature_names=["p", "q"])
    assert (len(stream), len(stream.parts), stream.n_features, stream.labeled) == (3, 1, 2, True)
    assert (stream.noun, stream.n_bytes) == ("sample", 24)
    (part,) = stream.parts
    (some,) = part.select(np.array([True, False, True]))
    assert some.X.tolist() == [[0, 1], [4, 5]]
    assert part.labels().tolist() == part.labels()[part.rows].tolist() == ["a", "b", "c"]
    assert stream.read().X is X
    with pytest.raises(DataError, match="no labels"):
        in_memory("mine", X, None).parts[0].labels()


def test_a_stream_of_which_nothing_can_be_used_is_refused() -> None:
    stream = in_memory("mine", np.empty((0, 2)), None)
    with pytest.raises(DataError, match=r"it has 0 samples, but none can be used\. The first is p: broken"):
        require_samples(stream, 0, [("p", "broken")])


def test_take_and_join_are_each_other_reversed() -> None:
    whole = Batch(
        np.arange(8.0).reshape(4, 2),
        np.array(list("abcd")),
        np.array([0, 2, 3, 5]),
        ["p", "q", "r", "s"],
        [1, 2, 3, 4],
        np.array(["g", "", "h", "g"]),
        [("t", "broken")],
        2,
        {"reading": 1.0},
    )
    assert (len(whole), whole.n_read) == (4, 7)
    first = whole.take(np.array([True, True, False, False]))
    last = whole.take(np.array([False, False, True, True]))
    joined = Batch.joined([first, last])
    for name in ("X", "y", "rows", "names", "ids", "groups"):
        assert np.array_equal(getattr(joined, name), getattr(whole, name)), name
    assert joined.failures == 2 * whole.failures  # both parts list what was skipped
    assert joined.seconds == {"reading": 2.0}
    assert Batch.joined([whole]) is whole
