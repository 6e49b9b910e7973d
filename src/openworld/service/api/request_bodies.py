"""How much JSON a body may hold: counted while it arrives, before it is parsed.

Python parses JSON with the interpreter locked, whichever thread does it: 60 MB of `[1],[1],...` stop every
other request for seconds and take thirty times as much memory. What cannot fit the model is refused before,
and what comes after that is not read.
"""

from __future__ import annotations

SMALL = 1 << 16  # bytes that are parsed in a moment, whatever they are


class JsonCounter:
    """Counts the lists and values of JSON that comes in pieces.

    Parameters
    ----------
    most_lists, most_values : int
        The most lists and objects together, and the most values, of a body that is allowed.
    """

    def __init__(self, most_lists: int, most_values: int) -> None:
        self._most_lists, self._most_values = most_lists, most_values
        self._n_lists = self._n_values = self._n_quotes = 0
        self._carried = b""

    @property
    def is_bounded(self) -> bool:
        """Whether what came so far is allowed."""
        n_values = max(self._n_values, self._n_quotes // 2)
        return self._n_lists <= self._most_lists and n_values <= self._most_values

    def add(self, data: bytes) -> None:
        """Count the next piece."""
        piece = self._carried + data
        self._carried = b"\\" if (len(piece) - len(piece.rstrip(b"\\"))) % 2 else b""
        piece = piece.removesuffix(self._carried).replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        outside = b"".join(parts[self._n_quotes % 2 :: 2])
        self._n_lists += outside.count(b"[") + outside.count(b"{")
        self._n_values += outside.count(b",")
        self._n_quotes += len(parts) - 1
