from __future__ import annotations

import io
import os
import pickle
import sys
import types
from collections import OrderedDict

import numpy as np
import pytest

from openworld.features.torch_weights import WeightsError, read_tensors

MAGIC, PROTOCOL, SYSTEM = 0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}


@pytest.fixture
def torch(monkeypatch):
    """Stands for torch while a file is written: pickle only writes the names."""
    names = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for module in names:
        monkeypatch.setitem(sys.modules, module.__name__, module)
    for name in ("FloatStorage", "LongStorage", "ByteTensor"):
        setattr(names[0], name, type(name, (), {"__module__": "torch"}))
    names[1]._rebuild_tensor_v2 = types.FunctionType((lambda: None).__code__, {}, "_rebuild_tensor_v2")
    names[1]._rebuild_tensor_v2.__module__ = "torch._utils"
    names[1]._rebuild_tensor_v2.__qualname__ = "_rebuild_tensor_v2"
    names[0]._utils = names[1]
    return names[0]


class Storage:
    def __init__(self, kind, key, values):
        self.kind, self.key, self.values = kind, key, values


class Tensor:
    def __init__(self, torch, storage, offset, shape, strides):
        self.torch, self.arguments = torch, (storage, offset, shape, strides, False, OrderedDict())

    def __reduce__(self):
        return self.torch._utils._rebuild_tensor_v2, self.arguments


def written(content, *storages):
    """A file as torch wrote it before version 1.6."""

    class Pickler(pickle.Pickler):
        def persistent_id(self, thing):
            if isinstance(thing, Storage):
                return ("storage", thing.kind, thing.key, "cpu", len(thing.values), None)
            return None

    stream = io.BytesIO()
    for part in (MAGIC, PROTOCOL, SYSTEM, content, [storage.key for storage in storages]):
        Pickler(stream, protocol=2).dump(part)
    for storage in storages:
        stream.write(len(storage.values).to_bytes(8, "little") + storage.values.tobytes())
    return stream.getvalue()


def test_tensors_of_several_shapes_and_types(torch):
    floats = Storage(torch.FloatStorage, "1", np.arange(12, dtype=np.float32))
    longs = Storage(torch.LongStorage, "2", np.array([7], dtype=np.int64))
    content = OrderedDict(
        whole=Tensor(torch, floats, 0, (3, 4), (4, 1)),
        transposed=Tensor(torch, floats, 0, (4, 3), (1, 4)),
        part=Tensor(torch, floats, 5, (2,), (3,)),
        scalar=Tensor(torch, longs, 0, (), ()),
        empty=Tensor(torch, floats, 0, (0, 4), (4, 1)),
    )
    tensors = read_tensors(written(content, floats, longs))
    assert list(tensors) == list(content)
    np.testing.assert_array_equal(tensors["whole"], np.arange(12).reshape(3, 4))
    np.testing.assert_array_equal(tensors["transposed"], np.arange(12).reshape(3, 4).T)
    np.testing.assert_array_equal(tensors["part"], [5, 8])
    assert tensors["scalar"].shape == ()
    assert tensors["scalar"] == 7
    assert tensors["empty"].shape == (0, 4)


class Call:
    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


@pytest.mark.parametrize(
    ("function", "argument", "name"),
    [
        (os.system, "touch {}", f"{os.name}.system"),
        (eval, "open('{}', 'w')", "(__builtin__|builtins).eval"),
        (getattr, "{}", "(__builtin__|builtins).getattr"),
    ],
)
@pytest.mark.parametrize("place", [0, 3])
def test_a_file_that_calls_anything_is_refused(tmp_path, function, argument, name, place):
    target = tmp_path / "called"
    parts = [MAGIC, PROTOCOL, SYSTEM, {}, []]
    parts[place] = {"weight": Call(function, argument.format(target))}
    data = b"".join(pickle.dumps(part, protocol=2) for part in parts)
    with pytest.raises(WeightsError, match=rf"asks for {name}, which is not part of a tensor"):
        read_tensors(data)
    assert not target.exists()


def test_other_things_of_torch_are_refused(torch):
    with pytest.raises(WeightsError, match=r"torch\.ByteTensor"):
        read_tensors(written({"weight": torch.ByteTensor}))


def test_content_other_than_tensors_is_refused():
    with pytest.raises(WeightsError, match="something other than a dictionary of tensors"):
        read_tensors(written({"weight": [1, 2, 3]}))


@pytest.mark.parametrize(
    ("offset", "shape", "strides", "match"),
    [
        (0, (5,), (1,), "beyond"),
        (3, (2,), (1,), "beyond"),
        (0, (2,), (4,), "beyond"),
        (-1, (2,), (1,), "do not fit"),
        (0, (2, 2), (1,), "do not fit"),
        (3, (2,), (-1,), "do not fit"),
    ],
)
def test_a_tensor_stays_within_its_storage(torch, offset, shape, strides, match):
    floats = Storage(torch.FloatStorage, "1", np.zeros(4, dtype=np.float32))
    with pytest.raises(WeightsError, match=match):
        read_tensors(written({"weight": Tensor(torch, floats, offset, shape, strides)}, floats))


def test_damaged_files_are_refused(torch):
    floats = Storage(torch.FloatStorage, "1", np.zeros(40, dtype=np.float32))
    data = written({"weight": Tensor(torch, floats, 0, (40,), (1,))}, floats)
    assert read_tensors(data)["weight"].shape == (40,)
    for length in range(0, len(data), 7):
        with pytest.raises(WeightsError):
            read_tensors(data[:length])
    with pytest.raises(WeightsError, match="not a file of torch's old format"):
        read_tensors(pickle.dumps(1))
    with pytest.raises(WeightsError):
        read_tensors(b"PK\x03\x04 the newer format is a zip")
