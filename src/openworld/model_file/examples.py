"""Examples of the classes in a model file: a few small pictures or texts, to show to people."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from openworld.model_file.packing import Arrays, require

NAME = "examples"
MOST_BYTES = 64_000  # of one example


def pack(examples: Mapping[str, Sequence[bytes]], labels: Collection[str]) -> tuple[list[Any], Arrays]:
    """Return labels with the lengths of their examples, and all bytes as one array."""
    kept = {label: list(some) for label, some in examples.items() if label in labels and some}
    data = b"".join(part for some in kept.values() for part in some)
    lengths = [[label, [len(part) for part in some]] for label, some in kept.items()]
    return lengths, {NAME: np.frombuffer(data, dtype=np.uint8)}


def unpack(lengths: Any, array: Any) -> dict[str, list[bytes]]:
    """Return the examples of each class, or raise where the parts do not fit together."""
    require(isinstance(lengths, list) and array.dtype == np.uint8 and array.ndim == 1, NAME)
    data, at = array.tobytes(), 0
    found: dict[str, list[bytes]] = {}
    for label, sizes in lengths:
        require(isinstance(label, str) and isinstance(sizes, list), NAME)
        found[label] = []
        for size in sizes:
            require(isinstance(size, int) and 0 < size <= MOST_BYTES and at + size <= len(data), NAME)
            found[label].append(data[at : at + size])
            at += size
    require(at == len(data), NAME)
    return found
