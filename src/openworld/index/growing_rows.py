"""GrowingRows: an array that grows by rows, which stores class statistics and projected class means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


@dataclass(frozen=True, eq=False)
class Restorer:
    """Undoes a change when it is called, by functions that it calls one after the other.

    `kept` are the arrays that it needs for that, beside those of its functions.
    """

    functions: Sequence[Callable[[], None]]
    kept: Sequence[NDArray[Any]] = ()

    def __call__(self) -> None:
        """Undo the change."""
        for function in self.functions:
            function()

    @cached_property
    def arrays(self) -> list[NDArray[Any]]:
        """All arrays that it keeps in memory."""
        nested = (function.arrays for function in self.functions if isinstance(function, Restorer))
        return [*self.kept, *chain.from_iterable(nested)]


class GrowingRows:
    """An array of rows that doubles its capacity when full.

    Appending a row costs O(1) amortized, and removing one moves only the last row into the gap, so learning
    or forgetting a class costs the same with ten classes as with a million.

    Parameters
    ----------
    rows : array of shape (n, ...)
        The initial rows. They are copied, with an eighth of spare capacity, unless they are memory-mapped
        (`numpy.memmap`): mapped rows stay in the file, and the operating system copies pages that change
        (copy on write). If they are a slice of a larger mapped array, its remaining rows are the spare
        capacity.
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
        """The rows in use, as a writable view."""
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

    def restorer(self, rows: NDArray[np.intp]) -> Restorer:
        """Return a function that undoes appended rows, and changes to or removal of the given rows."""
        room, used, kept = self._room, self._used, self.rows[rows]

        def restore() -> None:
            self._room, self._used = room, used
            room[rows] = kept

        return Restorer([restore], [room, kept])

    def copy(self) -> GrowingRows:
        """Return an independent copy."""
        return GrowingRows(self.rows, self._room.dtype)
