"""The head of a .npy file, read by any number of threads."""

from __future__ import annotations

from contextlib import suppress
from typing import IO, Any

import numpy as np

_TRIES = 10


def read_header(file: IO[bytes], most_bytes: int = 10_000) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether it is in Fortran order, and type; the file then stands at the first number.

    numpy reads the head with Python's parser, which in some releases fails with a SystemError now and then
    while another thread uses it too (seen in Python 3.11.7). The head is then read again.
    """
    for _ in range(_TRIES):
        with suppress(SystemError):
            return _read(file, most_bytes)
    return _read(file, most_bytes)


def _read(file: IO[bytes], most_bytes: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    file.seek(0)
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran_order, dtype = read(file, max_header_size=most_bytes)
    if any(type(length) is not int or length < 0 for length in shape):  # numpy lets True and -1 pass
        raise ValueError(f"the shape {shape} is not made of whole numbers")
    return shape, fortran_order, dtype
