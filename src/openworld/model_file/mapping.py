"""The rows of classes in a model file, mapped into memory: read where needed, copied where they change."""

from __future__ import annotations

import json
import math
import mmap
import os

import numpy as np

from openworld.model_file.packing import Arrays

# The arrays with one row of floats for each class; the others do not grow with the classes, or are small.
_ROWS_OF_CLASSES = ("sums", "projected_means")


def map_rows(path: str | os.PathLike[str]) -> Arrays:
    """Map the rows of classes in a sound safetensors file, copy on write.

    What follows them in the file is mapped too: it is room for new rows, and never read.
    """
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    size, maps = os.path.getsize(path), {}
    for name in _ROWS_OF_CLASSES:
        entry = header.get(name)
        if entry is not None and entry["dtype"] == "F64" and all(entry["shape"]):
            offset, (n_rows, *row) = 8 + length + entry["data_offsets"][0], entry["shape"]
            room = (size - offset) // (8 * math.prod(row))
            maps[name] = np.memmap(path, np.float64, mode="c", offset=offset, shape=(room, *row))[:n_rows]
    return maps


def release(maps: Arrays) -> None:
    """Give back the memory of what was read of mapped rows, of which nothing has changed yet."""
    for array in maps.values():
        mapping = array.base.base if array.base is not None else None
        if isinstance(mapping, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            mapping.madvise(mmap.MADV_DONTNEED)
