"""Checks of names, texts and feature vectors that come from outside."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openworld.service.results import Item, Refused

LONGEST_NAME = 200


def check_name(value: str, what: str = "A label") -> str:
    """Return a name without spaces around it, or say why it cannot be one."""
    if not value.strip():
        raise Refused(f"{what} cannot be empty.")
    name = value.strip()
    if len(name) > LONGEST_NAME:
        raise Refused(f"{what} can have {LONGEST_NAME} characters at most; this one has {len(name)}.")
    if not name.isprintable():
        raise Refused(f"{what} cannot have line breaks or control characters in it.")
    return name


def check_text(value: str | None, what: str) -> None:
    """Refuse text that cannot be stored."""
    if value is not None and ("\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value)):
        raise Refused(f"{what} holds characters that are no text.")


def check_items(items: list[Item]) -> None:
    """Refuse items with text that cannot be stored."""
    for item in items:
        check_text(item.text, "The text of a sample")
        check_text(item.source, "The source of a sample")


def as_features(X: ArrayLike, n_features: int) -> NDArray[np.floating[Any]]:
    """Return samples as they are stored, in float32 or, where that does not hold them, float64; or refuse."""
    array = np.asarray(X)
    if array.ndim != 2 or array.shape[1] != n_features:
        raise Refused(
            f"The model takes samples of {n_features} numbers; got an array of shape {array.shape}."
        )
    if array.dtype.kind not in "fiub":
        raise Refused(f"A sample is numbers; got {array.dtype}.")
    dtype = np.float32 if np.can_cast(array.dtype, np.float32) else np.float64
    array = np.ascontiguousarray(array, dtype=dtype)
    if not np.all(np.isfinite(array)):
        raise Refused("The samples hold NaN or infinity: look for wrong values.")
    return array
