"""Errors of the service, and checks of names, texts and features that clients send."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from unicodedata import category, normalize

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openworld.data.values import as_group
from openworld.recognition.validation import all_finite
from openworld.store.records import SampleContent

LONGEST_NAME = 200
_JOINERS = "\u200c\u200d"  # zero width: Persian and Indic spelling, emoji families
# Where a joiner joins nothing it cannot be seen, and would make a second name that looks the same.
_USELESS_JOINERS = re.compile(f"(?<![^\0-\x7f{_JOINERS}])[{_JOINERS}]+|[{_JOINERS}]+(?![^\0-\x7f])")


class Refused(ValueError):
    """The request is not valid; nothing was changed. The message says what to do."""


class NotFound(LookupError):
    """There is no such sample, cluster, class, event, version or key."""


class Conflict(RuntimeError):
    """Another person holds the cluster or gave the sample another label; nothing was changed."""


def check_name(value: str, what: str = "A label") -> str:
    """Return a name in its normalized spelling, or raise `Refused` with the reason why it cannot be a name.

    Unicode is composed (NFC), each run of spaces becomes one space, and spaces around the name are removed,
    so that two names that look the same are the same.
    """
    if any(category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in value.strip()):
        raise Refused(f"{what} cannot contain line breaks or control characters.")
    joined = re.sub(f"([{_JOINERS}])[{_JOINERS}]+", r"\1", normalize("NFC", value))
    name = " ".join(_USELESS_JOINERS.sub("", joined).split())
    if not name:
        raise Refused(f"{what} cannot be empty.")
    if len(name) > LONGEST_NAME:
        raise Refused(f"{what} can have at most {LONGEST_NAME} characters; this one has {len(name)}.")
    if not name.translate(dict.fromkeys(map(ord, _JOINERS))).isprintable():
        raise Refused(f"{what} cannot contain invisible characters.")
    return name


def natural_key(name: str) -> tuple[tuple[tuple[bool, int, str], ...], str]:
    """Return a key that sorts names as people do: class 2 before class 10, whatever the case."""
    parts = re.findall(r"\d+|\D+", name.casefold())
    return tuple((not part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts), name


def check_text(value: str, what: str) -> None:
    """Refuse text that cannot be stored."""
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise Refused(f"{what} has characters that cannot be stored (NUL or unpaired surrogates).")


def check_group(value: str | None) -> str | None:
    """Return a group as it is stored, None for a group of its own; or refuse it."""
    check_text(value or "", "A group")
    group = as_group(value)
    if group is not None and len(group) > LONGEST_NAME:
        raise Refused(f"A group can have at most {LONGEST_NAME} characters; this one has {len(group)}.")
    return group


def as_features(X: ArrayLike, n_features: int) -> NDArray[np.floating[Any]]:
    """Return samples as they are stored: float32, or float64 where float32 does not hold them; or refuse."""
    array = np.asarray(X)
    if array.ndim != 2 or array.shape[1] != n_features:
        raise Refused(
            f"The model takes samples of {n_features} numbers; got an array of shape {array.shape}."
        )
    if array.dtype.kind not in "fiub":
        raise Refused(f"A sample must consist of numbers; got {array.dtype}.")
    dtype = np.float32 if np.can_cast(array.dtype, np.float32) else np.float64
    array = np.ascontiguousarray(array, dtype=dtype)
    if not all_finite(array):
        raise Refused("The samples contain NaN or infinity: remove or replace these values.")
    return array


def check_items(items: Sequence[SampleContent]) -> None:
    """Refuse items with text that cannot be stored."""
    for item in items:
        if item.text is not None:
            check_text(item.text, "The text of a sample")
        if item.source is not None:
            check_text(item.source, "The source of a sample")
        if item.group is not None:
            check_group(item.group)
