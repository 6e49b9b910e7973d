"""Existing names that a new name may duplicate."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_TOO_MANY = 3


def near_duplicate_names(name: str, existing: Iterable[str]) -> list[str]:
    """Return the existing names that may mean the same as a name, the nearest first.

    Case, accents, compatibility forms, punctuation, spaces and the English plural do not count. Beyond
    that, names of 5 letters or more may differ by one edit (a letter inserted, dropped, replaced, or two
    neighbors swapped), names of 9 or more by two; a digit is never part of an edit, so that ``type 1``
    and ``type 2`` stay apart. A name of one character is compared as it is: ``a``, ``A`` and ``ä`` are
    three letters.

    Examples
    --------
    >>> near_duplicate_names("Zebras", ["zebra", "horse", "Zébra", "zerba"])
    ['zebra', 'Zébra', 'zerba']
    """
    plain = _plain(name)
    found = []
    for other in existing:
        other_plain = _plain(other)
        edits = min(
            _edits(plain, other_plain),
            _edits(_singular(plain), _singular(other_plain)),
        )
        if edits < _TOO_MANY:
            found.append((edits, other))
    return [other for _, other in sorted(found, key=lambda pair: pair[0])]


def edit_distance(first: str, second: str, enough: int) -> int:
    """Return the fewest insertions, deletions, replacements and swaps of neighbors (each letter in one).

    Where there are more than `enough`, some number greater than that. Written out because the core command
    `learn` uses it: a compiled dependency (rapidfuzz) for 15 lines is not worth it.
    """
    rows = [list(range(len(second) + 1))]
    for i, a in enumerate(first, start=1):
        row = [i]
        for j, b in enumerate(second, start=1):
            cost = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (a != b))
            if i > 1 and j > 1 and a == second[j - 2] and b == first[i - 2]:
                cost = min(cost, rows[-2][j - 2] + 1)
            row.append(cost)
        rows.append(row)
        if min(row) > enough and min(rows[-2]) > enough - 1:
            return enough + 1
    return rows[-1][-1]


def _plain(name: str) -> str:
    """Return a name without case, accents, punctuation and surplus spaces."""
    compatible = unicodedata.normalize("NFKC", name).strip()
    if len(compatible) <= 1:
        return compatible
    letters = unicodedata.normalize("NFKD", compatible.casefold())
    bare = "".join(c for c in letters if not unicodedata.combining(c))
    return " ".join(re.findall(r"[^\W_]+", bare)) or compatible


def _singular(name: str) -> str:
    """Take the English plural from each word; a word that only looks like one may lose its s as well."""
    return " ".join(_singular_word(word) for word in name.split(" "))


def _singular_word(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ches", "shes", "sses", "xes", "zes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _edits(first: str, second: str) -> int:
    """Return how many edits make one name of the other, or `_TOO_MANY` for different names."""
    if first == second:
        return 0
    shorter = min(len(first), len(second))
    allowed = 2 if shorter >= 9 else 1 if shorter >= 5 else 0
    if abs(len(first) - len(second)) > allowed or _digits(first) != _digits(second):
        return _TOO_MANY
    edits = edit_distance(first, second, allowed)
    return edits if edits <= allowed else _TOO_MANY


def _digits(name: str) -> str:
    return "".join(c for c in name if c.isdigit())
