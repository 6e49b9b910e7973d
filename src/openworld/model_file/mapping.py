"""The rows of classes in a model file, mapped into memory: read where needed, copied where they change."""

from __future__ import annotations

import json
import mmap
import os

import numpy as np

from openworld.model_file.packing import Arrays

# The arrays with one row of floats for each class; the others do not grow with the classes, or are small.
_ROWS_OF_CLASSES = ("sums", "projected_means")


def map_rows(path: str | os.PathLike[str]) -> Arrays:
    """Map the rows of classes in a sound safetensors file, copy on write."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    found = {name: header[name] for name in _ROWS_OF_CLASSES if name in header}
    return {
        name: np.memmap(
            path,
            np.float64,
            mode="c",
            offset=8 + length + entry["data_offsets"][0],
            shape=tuple(entry["shape"]),
        )
        for name, entry in found.items()
        if entry["dtype"] == "F64" and 0 not in entry["shape"]
    }


def release(maps: Arrays) -> None:
    """Give back the memory of what was read of mapped rows, of which nothing has changed yet."""
    for array in maps.values():
        if isinstance(array.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            array.base.madvise(mmap.MADV_DONTNEED)
