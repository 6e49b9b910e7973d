"""Arrow streams of requests -> arrays."""

from __future__ import annotations

from struct import error as StructError
from struct import unpack_from
from typing import Any

import numpy as np
from fastapi import HTTPException
from numpy.typing import NDArray

from openworld.service.validation import Refused

# Places in the flatbuffers tables of Arrow's Message.fbs.
_MESSAGE_HEADER, _BATCH_COMPRESSION = 2, 3


def read_arrow(body: bytes) -> NDArray[Any]:
    """Return the first column of an Arrow stream, lists of numbers of one length, as rows.

    Raises
    ------
    Refused
        If it is another stream, or a compressed one: a few bytes of that could fill the memory.
    """
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError:
        raise HTTPException(415, "Arrow needs pyarrow on the server: send .npy.") from None
    try:
        _check_messages(pyarrow.ipc.MessageReader.open_stream(body))
        with pyarrow.ipc.open_stream(body) as stream:
            _check_type(stream.schema.field(0).type)
            chunks = stream.read_all().column(0)
        chunks.validate(full=True)  # otherwise offsets that point outside the buffer are trusted
        column = chunks.combine_chunks()
        lengths = pyarrow.compute.list_value_length(column).fill_null(-1).to_numpy()
        values = column.flatten()
    except Refused:
        raise
    except (pyarrow.ArrowException, StructError, ValueError, LookupError, AttributeError, OSError) as error:
        raise Refused(
            f"The body is not an Arrow stream with a column of lists of numbers: {error}"
        ) from error
    n_numbers = int(lengths[0]) if len(lengths) else 0
    wrong = np.flatnonzero(lengths != n_numbers) if n_numbers > 0 else np.arange(len(lengths))
    if len(wrong):
        raise Refused(f"Row {wrong[0]} is missing, or is not a list of as many numbers as row 0.")
    if values.null_count:
        missing = values.is_null().to_numpy(zero_copy_only=False)
        raise Refused(f"Row {int(missing.argmax()) // n_numbers} has a number that is missing.")
    rows: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return rows.reshape(len(column), -1)


def _check_messages(messages: Any) -> None:
    for message in messages:
        if message.type == "dictionary" or (
            message.type == "record batch" and _is_compressed(message.metadata.to_pybytes())
        ):
            raise Refused("Send an Arrow stream without compression and without dictionaries.")


def _check_type(kind: Any) -> None:
    """Raise `Refused` unless the values of a type are lists of numbers that take memory in the stream."""
    from pyarrow import types

    is_list = types.is_list(kind) or types.is_large_list(kind)
    if is_list or (types.is_fixed_size_list(kind) and kind.list_size > 0):
        of = kind.value_type
        if types.is_integer(of) or types.is_floating(of) or types.is_boolean(of):
            return
    raise Refused(f"The rows must be lists of numbers, not {kind}.")


def _is_compressed(metadata: bytes) -> bool:
    batch = _follow(metadata, _field(metadata, _follow(metadata, 0), _MESSAGE_HEADER))
    return _field(metadata, batch, _BATCH_COMPRESSION) != 0


def _follow(data: bytes, place: int) -> int:
    """Return the place that the reference at a place of flatbuffers data points to."""
    return place + int(unpack_from("<I", data, place)[0])


def _field(data: bytes, table: int, number: int) -> int:
    """Return the place of a field of a flatbuffers table, 0 if it is absent."""
    fields = table - int(unpack_from("<i", data, table)[0])
    n_bytes, place = unpack_from("<H", data, fields)[0], 4 + 2 * number
    offset = int(unpack_from("<H", data, fields + place)[0]) if place < n_bytes else 0
    return table + offset if offset else 0
