"""How much JSON a body may hold: counted before it is parsed.

Python parses JSON with the interpreter locked, whichever thread does it: 60 MB of `[1],[1],...` stop every
other request for seconds and take thirty times as much memory. What cannot fit the model is refused before.
"""

from __future__ import annotations

SMALL = 1 << 16  # bytes that are parsed in a moment, whatever they are
_PIECE = 1 << 18


def is_bounded(body: bytes, most_lists: int, most_values: int) -> bool:
    """Tell whether JSON has at most so many lists and objects, and so many values.

    It looks at a piece at a time, so that other threads have their turn, and stops as soon as it knows.
    """
    n_lists = n_values = n_quotes = 0
    is_text, carried = False, b""
    for start in range(0, len(body), _PIECE):
        piece = carried + body[start : start + _PIECE]
        carried = b"\\" if (len(piece) - len(piece.rstrip(b"\\"))) % 2 else b""
        piece = piece.removesuffix(carried).replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        outside = b"".join(parts[is_text::2])
        n_lists += outside.count(b"[") + outside.count(b"{")
        n_values += outside.count(b",")
        n_quotes += len(parts) - 1
        is_text = bool(n_quotes % 2)
        if n_lists > most_lists or max(n_values, n_quotes // 2) > most_values:
            return False
    return True
