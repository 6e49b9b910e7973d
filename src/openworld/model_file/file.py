"""Reading and writing model files, all or nothing.

A file holds the arrays of the model and, in the safetensors header, two texts: `openworld`, a JSON
document with the format version and all that is not an array, and `sha256`, the digest of both.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from openworld._version import __version__
from openworld.model_file.documents import READABLE_VERSIONS, describe, restore
from openworld.model_file.mapping import map_rows, release
from openworld.model_file.packing import Arrays, Document, ModelFileError, as_text, require

# What reading nonsense can raise: no such key or row, a wrong type or value, too large, too deeply nested.
_UNSOUND = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, MemoryError)


def save(model: Any, path: str | os.PathLike[str], *, exact: bool = False) -> None:
    """Write a fitted recognizer to a file, all or nothing.

    The file is written beside its place, flushed to disk and then moved there, so a crash leaves
    either the old file or the new one.

    Parameters
    ----------
    model : OpenWorldRecognizer, NearestNonOutlier, NearestClassMean or SoftmaxThreshold
    path : path
        The customary ending is `.ow`.
    exact : bool, default=False
        Keep all that an `OpenWorldRecognizer` has learned in float64, and what is computed from it: about
        three times the size. The loaded model then also learns to the last bit as this one does. By default
        the scatter is rounded to float32, as the metric reads it, and the map of the metric is computed
        again: predictions are the same to the last bit where the linear algebra library is the same, and
        within rounding elsewhere.
    """
    arrays, metadata = _parts(model, exact)
    target = Path(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    os.close(handle)
    try:
        save_file(arrays, temporary, metadata=metadata)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _flush_folder(target.parent)


def dumps(model: Any) -> bytes:
    """Return a fitted recognizer as the bytes of an exact model file."""
    arrays, metadata = _parts(model, exact=True)
    # safetensors keeps the interpreter locked while it makes bytes, but not while it writes a file.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.ow")
        save_file(arrays, path, metadata=metadata)
        return path.read_bytes()


def loads(data: bytes) -> Any:
    """Return the recognizer in the bytes of a model file; as `load`, and with its errors."""
    # safetensors reads metadata from files only.
    with tempfile.NamedTemporaryFile(suffix=".ow") as file:
        file.write(data)
        file.flush()
        return load(file.name)


def digest(data: bytes) -> str:
    """Return the checksum in the bytes of a model file: equal models have equal checksums.

    The bytes may differ, as safetensors puts its metadata in any order.
    """
    length = int.from_bytes(data[:8], "little")
    try:
        return str(json.loads(data[8 : 8 + length])["__metadata__"]["sha256"])
    except _UNSOUND as error:
        raise ModelFileError("These bytes are not an openworld model file, or they are damaged.") from error


def load(path: str | os.PathLike[str], *, mapped: bool = False) -> Any:
    """Read a recognizer, which predicts as the saved one did; see `save` for how exactly.

    Parameters
    ----------
    path : path
    mapped : bool, default=False
        Leave what is kept of each class in the file and read it where it is needed, so that a model of
        a million classes is there in a second or two and takes little memory. What the model learns stays
        in memory: the file never changes. The checksum is not compared then, as that would read the whole
        file: `verify` does so. The file may be replaced or deleted meanwhile, but not written to.

    Raises
    ------
    ModelFileError
        If the file is truncated, altered, of another kind, or written by a newer openworld.
    FileNotFoundError
        If there is no such file.
    """
    _require_file(path)
    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            if not {"openworld", "sha256"} <= set(metadata):
                raise ModelFileError(f"{path} is a safetensors file, but not an openworld model.")
            text = metadata["openworld"]
            document = json.loads(text)
            version = document["format_version"]
            if version not in READABLE_VERSIONS:
                raise ModelFileError(
                    f"{path} has format {version}; this openworld ({__version__}) reads formats up to "
                    f"{READABLE_VERSIONS[-1]}. Update openworld."
                )
            maps = map_rows(path) if mapped else {}
            names = [name for name in file.keys() if name not in maps]  # noqa: SIM118 -- not a dict
            arrays = {name: file.get_tensor(name) for name in names}
        if not mapped:
            _check_digest(path, metadata, arrays)
        model = restore(document, {**arrays, **maps})
        release(maps)
        return model
    except ModelFileError:
        raise
    except SafetensorError as error:
        raise ModelFileError(f"{path} is not an openworld model file, or it is damaged.") from error
    except _UNSOUND as error:
        raise ModelFileError(f"{path} does not describe a sound model ({error!r}).") from error


def verify(path: str | os.PathLike[str]) -> None:
    """Compare the checksum of a model file, as `load` does unless the file is mapped.

    Raises
    ------
    ModelFileError
        If the file is truncated, altered or of another kind.
    """
    _require_file(path)
    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 -- not a dict
            _check_digest(path, file.metadata() or {}, arrays)
    except ModelFileError:
        raise
    except (SafetensorError, *_UNSOUND) as error:
        raise ModelFileError(f"{path} is not an openworld model file, or it is damaged.") from error


def _check_digest(path: str | os.PathLike[str], metadata: dict[str, str], arrays: Arrays) -> None:
    if _digest(metadata["openworld"], arrays) != metadata["sha256"]:
        raise ModelFileError(f"{path} was altered after it was written: its checksum does not fit.")


def read_description(path: str | os.PathLike[str]) -> Document:
    """Read the JSON document of a model file without its arrays and without checking them."""
    _require_file(path)
    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            document = json.loads((file.metadata() or {})["openworld"])
            require(isinstance(document, dict), "parts")
            return dict(document)
    except (SafetensorError, *_UNSOUND) as error:
        raise ModelFileError(f"{path} is not an openworld model file, or it is damaged.") from error


def _parts(model: Any, exact: bool) -> tuple[Arrays, dict[str, str]]:
    """Return the arrays and the metadata of a model file."""
    document, arrays = describe(model, exact)
    text = as_text(document)
    return arrays, {"openworld": text, "sha256": _digest(text, arrays)}


def _require_file(path: str | os.PathLike[str]) -> None:
    if os.path.isdir(path):
        raise ModelFileError(f"{path} is a folder, not a model file.")
    if not os.path.exists(path):
        raise FileNotFoundError(
            f"{path}: there is no such model file. openworld fit DATA -o {path} makes one."
        )


def _digest(text: str, arrays: Arrays) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.data.cast("B") if array.size else b"")
    return digest.hexdigest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _flush_folder(folder: Path) -> None:
    """Make the move itself durable, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
