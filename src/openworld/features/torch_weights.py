"""Reader of weights that `torch.save` wrote in the format before torch 1.6, without torch.

Such a file consists of pickles, and a pickle can call any function. The unpickler here allows only the names
that a dictionary of tensors needs, so a file can contain nothing but numbers.
"""

from __future__ import annotations

import io
import math
import pickle
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001
_STORAGES = {
    "FloatStorage": np.dtype("<f4"),
    "DoubleStorage": np.dtype("<f8"),
    "HalfStorage": np.dtype("<f2"),
    "LongStorage": np.dtype("<i8"),
    "IntStorage": np.dtype("<i4"),
}


class WeightsError(ValueError):
    """A file is not a dictionary of tensors, or contains anything else."""


@dataclass(frozen=True)
class _Tensor:
    """The place of a tensor in its storage."""

    dtype: np.dtype[Any]
    storage: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def of(self, storages: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        values = storages[self.storage]
        if len(self.shape) != len(self.strides) or min((self.offset, *self.shape, *self.strides)) < 0:
            raise WeightsError("A tensor has a shape and strides that do not fit.")
        last = self.offset + sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True))
        if math.prod(self.shape) and last >= len(values):
            raise WeightsError("A tensor reaches beyond its storage.")
        strides = [step * values.itemsize for step in self.strides]
        view = np.lib.stride_tricks.as_strided(values[self.offset :], self.shape, strides, writeable=False)
        return np.ascontiguousarray(view).reshape(self.shape)


class _TensorsOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _rebuild
        if module == "torch" and name in _STORAGES:
            return _STORAGES[name]
        raise WeightsError(
            f"The file asks for {module}.{name}, which is not part of a tensor, so it is not read."
        )

    def persistent_load(self, pid: Any) -> tuple[np.dtype[Any], str]:
        match pid:
            case ("storage", np.dtype() as dtype, str() as key, str(), int(), None):
                return dtype, key
        raise WeightsError("A storage is not described as torch does it.")


def _rebuild(
    storage: tuple[np.dtype[Any], str],
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    *_: object,
) -> _Tensor:
    dtype, key = storage
    return _Tensor(dtype, key, int(offset), tuple(map(int, shape)), tuple(map(int, strides)))


def read_tensors(data: bytes) -> dict[str, NDArray[Any]]:
    """Read a dictionary of tensors.

    Parameters
    ----------
    data : bytes
        The whole file, as `torch.save(..., _use_new_zipfile_serialization=False)` writes it.

    Raises
    ------
    WeightsError
        If the file is damaged, in another format, or holds anything but tensors.
    """
    stream = io.BytesIO(data)
    try:
        if _next(stream) != _MAGIC or _next(stream) != _PROTOCOL:
            raise WeightsError("This is not a file of torch's old format.")
        _next(stream)  # about the machine that wrote it
        tensors = _next(stream)
        if not isinstance(tensors, dict) or not all(isinstance(t, _Tensor) for t in tensors.values()):
            raise WeightsError("The file holds something other than a dictionary of tensors.")
        dtypes = {tensor.storage: tensor.dtype for tensor in tensors.values()}
        storages = {key: _storage(stream, dtypes[key]) for key in _next(stream)}
        return {str(name): tensor.of(storages) for name, tensor in tensors.items()}
    except WeightsError:
        raise
    except Exception as error:  # a damaged pickle can raise any error
        raise WeightsError(f"The file cannot be read as torch's old format: {error!r}.") from error


def _next(stream: io.BytesIO) -> Any:
    return _TensorsOnly(stream).load()


def _storage(stream: io.BytesIO, dtype: np.dtype[Any]) -> NDArray[Any]:
    length = int.from_bytes(stream.read(8), "little")
    content = stream.read(length * dtype.itemsize)
    if len(content) != length * dtype.itemsize:
        raise WeightsError("The file ends within a storage.")
    return np.frombuffer(content, dtype)
