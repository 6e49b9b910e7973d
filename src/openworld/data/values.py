"""Conversion of table cells to numbers, labels and groups."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.data.errors import DataError

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-"})
_BOOLEANS = {"true": 1.0, "false": 0.0}
_DATE = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}([ T].*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}( .*)?|\d{1,2}:\d{2}(:\d{2})?"
)


def as_numbers(cells: list[str], *, decimal_comma: bool = False) -> NDArray[np.float64]:
    """Return cells as numbers, NaN where a value is missing.

    Raises
    ------
    NotANumber
        With the position of the first cell that is not a number.
    """
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        numbers = np.empty(len(cells))
        for i, cell in enumerate(cells):
            numbers[i] = _number(cell.strip(), i, decimal_comma)
        return numbers


class NotANumber(ValueError):
    """A cell is not a number; `position` is its index."""

    def __init__(self, position: int, cell: str) -> None:
        self.position, self.cell = position, cell
        kind = "a date or time" if _DATE.fullmatch(cell) else "not a number"
        super().__init__(f"{cell!r} is {kind}")


def _number(cell: str, position: int, decimal_comma: bool) -> float:
    known = cell.lower()
    if known in MISSING:
        return np.nan
    if known in _BOOLEANS:
        return _BOOLEANS[known]
    try:
        return float(cell.replace(",", ".") if decimal_comma else cell)
    except ValueError:
        raise NotANumber(position, cell) from None


def as_labels(place: object, labels: NDArray[Any], missing: NDArray[np.bool_]) -> NDArray[Any]:
    """Return whole numbers as integers and everything else as text; a missing label is an error."""
    if missing.any():
        raise DataError(f"{place}: sample {int(missing.argmax()) + 1} has no label.")
    if labels.dtype.kind in "iub":
        return labels
    text = labels.astype(str)
    try:
        numbers = text.astype(np.int64)
    except (ValueError, OverflowError):
        return text
    # "007" stays text, because as a number it would become 7.
    return numbers if np.array_equal(numbers.astype(str), text) else text


def as_group(value: Any) -> str | None:
    """Return the group that a cell names; None if it is missing: the sample is a group of its own.

    1.0 is the group 1: a column of whole numbers with missing ones is often stored as fractions.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    name = "" if value is None else str(value).strip()
    return None if name.lower() in MISSING else name


def as_groups(values: Iterable[Any]) -> NDArray[np.str_]:
    """Return the group of each sample as text; "" if it is missing."""
    return np.array([as_group(value) or "" for value in values], dtype=str)


def group_numbers(groups: NDArray[Any]) -> NDArray[np.intp]:
    """Return the same number for the samples of a group; a sample without a group ("") has its own."""
    _, numbers = np.unique(groups, return_inverse=True)
    return np.where(groups == "", len(groups) + np.arange(len(groups)), numbers)


def counts_rows(values: NDArray[Any]) -> bool:
    """Return whether a column only counts the rows: 0, 1, 2, ... or 1, 2, 3, ..."""
    n = len(values)
    return n >= 10 and values[0] in (0, 1) and bool(np.array_equal(values, values[0] + np.arange(n)))
