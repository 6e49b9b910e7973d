"""Thread-safe reading of the header of a .npy file."""

from __future__ import annotations

from contextlib import suppress
from typing import IO, Any

import numpy as np

_TRIES = 10


def read_header(file: IO[bytes], most_bytes: int = 10_000) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether the order is Fortran, and dtype; the file is then positioned at the data.

    numpy reads the header with Python's parser, which in some releases occasionally fails with a SystemError
    while another thread uses it too (seen in Python 3.11.7). The header is then read again.
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
