"""The head of a .npy file, also while Python's parser fails now and then."""

from __future__ import annotations

import io

import numpy as np
import pytest

from openworld.data.npy_header import read_header


def _file(array: np.ndarray) -> io.BytesIO:
    file = io.BytesIO()
    np.save(file, array)
    return file


def test_shape_order_type_and_place() -> None:
    file = _file(np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3)))
    assert read_header(file) == ((2, 3), True, np.dtype(np.int16))
    assert np.frombuffer(file.read(), np.int16).tolist() == [0, 3, 1, 4, 2, 5]


def test_a_parser_that_fails_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    file, read, calls = _file(np.zeros((4, 2))), np.lib.format.read_array_header_1_0, []

    def fails_twice(*given: object, **more: object) -> object:
        calls.append(1)
        if len(calls) < 3:
            raise SystemError("AST constructor recursion depth mismatch")
        return read(*given, **more)

    monkeypatch.setattr(np.lib.format, "read_array_header_1_0", fails_twice)
    assert read_header(file)[0] == (4, 2)
    assert len(calls) == 3


@pytest.mark.parametrize("shape", ["(True, 32)", "(-1, 32)"])
def test_a_shape_is_made_of_whole_numbers(shape: str) -> None:
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(118).encode()
    file = io.BytesIO(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head)
    with pytest.raises(ValueError, match="not made of whole numbers"):
        read_header(file)


def test_one_that_always_fails_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: object, **more: object) -> object:
        raise SystemError("no")

    monkeypatch.setattr(np.lib.format, "read_array_header_1_0", fails)
    with pytest.raises(SystemError, match="no"):
        read_header(_file(np.zeros(3)))
