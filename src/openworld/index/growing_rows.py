"""Rows of a matrix that grows: the storage behind class statistics and projected class means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def in_turn(functions: Sequence[Callable[[], None]]) -> Callable[[], None]:
    """Return a function that calls these functions, one after the other."""

    def call() -> None:
        for function in functions:
            function()

    return call


class GrowingRows:
    """An array of rows that doubles its room when full; to start with, there is room for an eighth more.

    Appending a row costs O(1) amortized and removing one moves only the last row into the gap, so
    learning or forgetting a class costs the same with ten classes and with a million.

    Parameters
    ----------
    rows : array of shape (n, ...)
        The rows to start with; copied, unless they are mapped from a file (`numpy.memmap`): such rows are
        left where they are, and those that change are copied page by page (copy on write). Where they are a
        part of more that is mapped, new rows take the place of what follows.
    dtype : dtype, default=float64
    """

    def __init__(self, rows: NDArray[Any], dtype: DTypeLike = np.float64) -> None:
        self._used = len(rows)
        if isinstance(rows, np.memmap) and rows.dtype == np.dtype(dtype):
            room = rows.base if isinstance(rows.base, np.memmap) else rows
            self._room = room.view(np.ndarray)
        else:
            self._room = np.empty((self._used + self._used // 8, *np.shape(rows)[1:]), dtype=dtype)
            self._room[: self._used] = rows

    def __len__(self) -> int:
        return self._used

    @property
    def rows(self) -> NDArray[Any]:
        """The rows in use, as a view: writing to it writes to the rows."""
        return self._room[: self._used]

    def extend(self, rows: NDArray[Any]) -> None:
        """Append rows at the end."""
        needed = self._used + len(rows)
        if needed > len(self._room):
            shape = max(needed, 2 * len(self._room)), *self._room.shape[1:]
            room = np.empty(shape, dtype=self._room.dtype)
            room[: self._used] = self.rows
            self._room = room
        self._room[self._used : needed] = rows
        self._used = needed

    def remove(self, row: int) -> None:
        """Remove one row; the last row takes its place."""
        self._used -= 1
        self._room[row] = self._room[self._used]

    def restorer(self, rows: NDArray[np.intp]) -> Callable[[], None]:
        """Return a function that undoes appending rows, and changing or removing these ones."""
        room, used, kept = self._room, self._used, self.rows[rows]

        def restore() -> None:
            self._room, self._used = room, used
            room[rows] = kept

        return restore

    def copy(self) -> GrowingRows:
        """Return an independent copy."""
        return GrowingRows(self.rows, self._room.dtype)
