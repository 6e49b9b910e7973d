"""Cells as numbers and labels."""

from __future__ import annotations

import numpy as np
import pytest

from openworld.data.values import NotANumber, as_groups, as_numbers, counts_rows, group_numbers


def test_numbers_missing_values_and_booleans() -> None:
    assert as_numbers(["1", " 2.5 ", "-1e-3"]).tolist() == [1, 2.5, -0.001]
    found = as_numbers(["1", "", "NA", "n/a", "null", "?", "-", "nan", "True", "false"])
    assert found[[0, 8, 9]].tolist() == [1, 1, 0]
    assert np.isnan(found[1:8]).all()
    assert as_numbers(["1,5", "x"[:0]], decimal_comma=True)[0] == 1.5


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("cat", "'cat' is not a number"),
        ("2024-05-01", "is a date or time"),
        ("2024-05-01T12:00:00", "is a date or time"),
        ("1.5.2024", "is a date or time"),
        ("05/01/24", "is a date or time"),
        ("12:30", "is a date or time"),
        ("1,5", "is not a number"),
    ],
)
def test_what_is_no_number_is_named(cell: str, words: str) -> None:
    with pytest.raises(NotANumber, match=words) as raised:
        as_numbers(["1", "2", cell])
    assert raised.value.position == 2


def test_row_numbers() -> None:
    assert counts_rows(np.arange(10.0))
    assert counts_rows(np.arange(1, 21))
    assert not counts_rows(np.arange(5))  # a table so small may be anything
    assert not counts_rows(np.arange(10) * 2)
    assert not counts_rows(np.arange(7, 27))


def test_a_missing_cell_is_a_group_of_its_own() -> None:
    cells = [" burst 1 ", "", "nan", None, float("nan"), "N/A", 7, "7"]
    assert as_groups(cells).tolist() == ["burst 1", "", "", "", "", "", "7", "7"]
    assert as_groups([]).dtype.kind == "U"
    assert as_groups([1.0, np.nan, 1.5]).tolist() == ["1", "", "1.5"]
    numbers = group_numbers(np.array(["b", "", "a", "", "b"]))
    assert numbers[0] == numbers[4]
    assert len(set(numbers.tolist())) == 4
