import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openworld.index.growing_rows import GrowingRows

ROW_SHAPES = [(), (3,), (2, 2)]


def numbered(start, n, shape):
    """n rows, each full of its own number."""
    return np.arange(start, start + n, dtype=float).reshape(n, *(1 for _ in shape)) * np.ones(shape)


@settings(max_examples=200)
@given(
    shape=st.sampled_from(ROW_SHAPES),
    n_start=st.integers(0, 4),
    steps=st.lists(
        st.tuples(st.sampled_from(["extend", "remove", "copy", "write"]), st.integers(0, 9)), max_size=40
    ),
)
def test_behaves_as_a_plain_list(shape, n_start, steps):
    fresh = numbered(0, n_start, shape)
    growing, model = GrowingRows(fresh), list(fresh)
    left_behind = []
    for number, (step, size) in enumerate(steps):
        if step == "extend":
            rows = numbered(100 * (number + 1), size, shape)
            growing.extend(rows)
            model.extend(rows)
        elif step == "remove" and model:
            row = size % len(model)
            growing.remove(row)
            last = model.pop()
            if row < len(model):
                model[row] = last
        elif step == "copy":
            left_behind.append((growing, list(model)))
            growing = growing.copy()
        elif step == "write" and model:
            growing.rows[size % len(model)] = -number
            model[size % len(model)] = np.full(shape, -number, dtype=float)
        assert len(growing) == len(model)
        assert growing.rows.shape == (len(model), *shape)
        assert growing.rows.dtype == np.float64
        np.testing.assert_array_equal(growing.rows, np.array(model).reshape(-1, *shape))
    for original, expected in left_behind:
        np.testing.assert_array_equal(original.rows, np.array(expected).reshape(-1, *shape))


def test_the_first_rows_are_copied():
    rows = np.ones((2, 3))
    growing = GrowingRows(rows)
    growing.rows[0] = 5
    rows[1] = 7
    np.testing.assert_array_equal(rows, [[1, 1, 1], [7, 7, 7]])
    np.testing.assert_array_equal(growing.rows, [[5, 5, 5], [1, 1, 1]])


def test_appended_rows_are_copied():
    rows = np.ones((2, 3))
    growing = GrowingRows(np.empty((0, 3)))
    growing.extend(rows)
    rows[:] = 7
    np.testing.assert_array_equal(growing.rows, np.ones((2, 3)))


def test_can_be_extended_by_its_own_rows():
    growing = GrowingRows(numbered(0, 2, (2,)))
    for _ in range(3):
        growing.extend(growing.rows)
    np.testing.assert_array_equal(growing.rows, np.tile(numbered(0, 2, (2,)), (8, 1)))


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_other_types_become_float64(dtype):
    growing = GrowingRows(np.ones((1, 2), dtype=dtype))
    growing.extend(np.full((1, 2), 3, dtype=dtype))
    assert growing.rows.dtype == np.float64
    np.testing.assert_array_equal(growing.rows, [[1, 1], [3, 3]])


def test_appending_one_by_one_moves_the_rows_a_few_times_only():
    growing = GrowingRows(np.empty((0, 1)))
    moves, room = 0, None
    for number in range(1000):
        growing.extend(np.array([[float(number)]]))
        moves += growing.rows.base is not room
        room = growing.rows.base
    assert moves <= 11  # 1, 2, 4, ... 1024
    np.testing.assert_array_equal(growing.rows[:, 0], np.arange(1000))
