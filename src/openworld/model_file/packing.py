"""Parts of the documents of all models: labels, parameters, objectives, examples, and checks of arrays."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from openworld.index import Training
from openworld.recognition import F1, FalseAcceptRate, KnownRecall, MinOpenWorldError
from openworld.recognition.validation import label_kind

Arrays = dict[str, NDArray[Any]]
Document = dict[str, Any]

_LARGEST = 1e150
_EXAMPLE_BYTES = 64_000  # of one example, at most
_LARGEST_CENTROID = 1e15  # no coordinate in an index is larger: float32 has to hold its square

# By the names in model files, which stay when a class is renamed.
_OBJECTIVES: dict[str, Any] = {
    "F1": F1,
    "FalseAcceptRate": FalseAcceptRate,
    "KnownRecall": KnownRecall,
    "OpenWorldError": MinOpenWorldError,
}
_NAMES = {kind: name for name, kind in _OBJECTIVES.items()}


class ModelFileError(ValueError):
    """A model cannot be written, or a file is not a valid model file."""


def as_text(document: Document) -> str:
    """Write the document as plain ASCII, so that any label can be stored."""
    try:
        return json.dumps(document, allow_nan=False, sort_keys=True, default=_plain_number)
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"The model holds something that has no place in a file: {error}.") from error


def _plain_number(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} is neither a number nor a text")


def plain_random_state(parameters: Document) -> Document:
    """Replace a random generator, which has no place in a file, by None; a seed stays."""
    if "random_state" not in parameters:
        return parameters
    seed = parameters["random_state"]
    return {**parameters, "random_state": int(seed) if isinstance(seed, int | np.integer) else None}


# -- checks -------------------------------------------------------------------------------------------


def require(sound: bool, what: str) -> None:
    """Raise unless a part of a document is sound."""
    if not sound:
        raise ValueError(f"the {what} of the model do not fit together")


def require_floats(
    array: NDArray[Any],
    shape: tuple[int, ...],
    what: str,
    dtype: DTypeLike = np.float64,
    most: ArrayLike = _LARGEST,
) -> NDArray[Any]:
    """Return the array if it has this shape and type and no value is larger than `most`, or not a number.

    By default every value can be squared and summed. The values of an array that is mapped from a file are
    not looked at: that would read the whole file.
    """
    require(array.dtype == dtype and array.shape == shape, what)
    most = np.minimum(most, float(np.finfo(dtype).max))
    require(isinstance(array, np.memmap) or bool(np.all(np.abs(array) <= most)), what)  # NaN fails, too
    return array


def require_number(value: Any, what: str, least: float = -np.inf) -> float:
    """Return the value if it is a finite number, not below `least`."""
    require(isinstance(value, Real) and not isinstance(value, bool), what)
    number = float(value)
    require(bool(np.isfinite(number)) and number >= least, what)
    return number


def require_whole(value: Any, what: str, least: int = 0) -> int:
    """Return the value if it is a whole number, not below `least`."""
    require(isinstance(value, Integral) and not isinstance(value, bool), what)
    require(int(value) >= least, what)
    return int(value)


def require_training(arrays: Arrays, n_vectors: int, n_dimensions: int) -> Training:
    """Return the training of an index of so many vectors, if it is sound."""
    centroids, lists = arrays["index.centroids"], arrays["index.lists"]
    require_floats(centroids, (len(centroids), n_dimensions), "index", np.float32)
    require(bool(np.all(np.abs(centroids) <= _LARGEST_CENTROID)), "index")
    require(len(centroids) > 0 and lists.dtype == np.int32 and lists.shape == (n_vectors,), "index")
    require(bool(np.all((lists >= 0) & (lists < len(centroids)))), "index")
    return Training(centroids, lists)


# -- matrices -----------------------------------------------------------------------------------------


def pack_triangle(matrix: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """Return the lower triangle of a matrix, row after row."""
    return np.asarray(matrix[np.tril_indices(len(matrix))], dtype=dtype)


def unpack_triangle(packed: NDArray[Any], size: int, what: str, most: float) -> NDArray[Any]:
    """Return the lower triangular matrix that was packed in float32 or float64."""
    require(packed.dtype in (np.float32, np.float64), what)
    require_floats(packed, (size * (size + 1) // 2,), what, packed.dtype, most)
    matrix = np.zeros((size, size), dtype=packed.dtype)
    matrix[np.tril_indices(size)] = packed
    return matrix


def pack_zeros(name: str, array: NDArray[Any]) -> Arrays:
    """Return an array of floats; if most of them are zero, the others and a bit for each that says which."""
    present = array.view(f"u{array.itemsize}") != 0  # minus zero is not zero
    if 2 * np.count_nonzero(present) > array.size:
        return {name: array}
    return {name: array[present], f"{name}.present": np.packbits(present)}


def unpack_zeros(
    arrays: Arrays, name: str, shape: tuple[int, ...], dtype: DTypeLike, most: float
) -> NDArray[Any]:
    """Return the array of this shape that was packed."""
    stored, packed = arrays[name], arrays.get(f"{name}.present")
    if packed is None:
        return require_floats(stored, shape, name, dtype, most)
    size = math.prod(shape)
    require(packed.dtype == np.uint8 and packed.shape == (-(-size // 8),), name)
    present = np.unpackbits(packed, count=size).astype(bool)
    array = np.zeros(size, dtype=dtype)
    array[present] = require_floats(stored, (int(np.count_nonzero(present)),), name, dtype, most)
    return array.reshape(shape)


# -- labels -------------------------------------------------------------------------------------------


def pack_groups(hashes: NDArray[np.uint64] | None, times: NDArray[np.int64]) -> Arrays:
    """Return the hashes of the groups of samples, and how often each came, as arrays to store.

    There are none if no sample has a group.
    """
    return {} if hashes is None else {"groups": hashes.view(np.int64), "times": times}


def unpack_groups(
    arrays: Arrays, n_samples: int
) -> tuple[NDArray[np.uint64] | None, NDArray[np.int64] | None]:
    """Return the hashes of the groups of samples, and how often each came; None if they have no groups."""
    hashes, times = arrays.get("groups"), arrays.get("times")
    for name, found in (("groups", hashes), ("times", times)):
        require(found is None or (found.dtype == np.int64 and found.shape == (n_samples,)), name)
    require(times is None or (hashes is not None and times.min(initial=0) >= 0), "times")
    return None if hashes is None else hashes.view(np.uint64), times


def pack_labels(labels: list[Any]) -> Document | None:
    """Describe labels of one kind; [None] becomes None."""
    if labels == [None]:
        return None
    kind = label_kind(labels)
    values = [label.decode("latin-1") for label in labels] if kind == "bytes" else labels
    return {
        "kind": kind,
        "values": [value.item() if isinstance(value, np.generic) else value for value in values],
    }


def unpack_labels(packed: Document) -> list[Any]:
    """Return the labels that were packed."""
    values: list[Any] = packed["values"]
    require(isinstance(values, list), "labels")
    if packed["kind"] == "bytes":
        return [value.encode("latin-1") for value in values]
    require(not values or label_kind(values) == packed["kind"], "labels")
    return values


def unpack_label(packed: Document | None) -> Any:
    """Return a single label that was packed."""
    return None if packed is None else unpack_labels(packed)[0]


# -- objectives ---------------------------------------------------------------------------------------


def is_own_objective(objective: Any) -> bool:
    """Return whether the objective is a class of the user, which a model file cannot restore."""
    return type(objective) not in _NAMES


def pack_objective(objective: Any) -> Document:
    """Describe an objective of the package."""
    return {"type": _NAMES[type(objective)], **asdict(objective)}


def unpack_objective(packed: Document) -> Any:
    """Return the objective that was packed."""
    parameters = dict(packed)
    kind = _OBJECTIVES[parameters.pop("type")]
    return kind(**{name: require_number(value, "objective") for name, value in parameters.items()})


def pack_examples(
    examples: Mapping[str, Sequence[bytes]], labels: Collection[str]
) -> tuple[list[Any], Arrays]:
    """Return labels with the lengths of their examples, and all bytes as one array."""
    kept = {label: list(some) for label, some in examples.items() if label in labels and some}
    data = b"".join(part for some in kept.values() for part in some)
    lengths = [[label, [len(part) for part in some]] for label, some in kept.items()]
    return lengths, {"examples": np.frombuffer(data, dtype=np.uint8)}


def unpack_examples(lengths: Any, array: Any) -> dict[str, list[bytes]]:
    """Return the examples of each class, or raise an error if the parts do not fit together."""
    require(isinstance(lengths, list) and array.dtype == np.uint8 and array.ndim == 1, "examples")
    data, at = array.tobytes(), 0
    found: dict[str, list[bytes]] = {}
    for label, sizes in lengths:
        require(isinstance(label, str) and isinstance(sizes, list), "examples")
        found[label] = []
        for size in sizes:
            require(
                isinstance(size, int) and 0 < size <= _EXAMPLE_BYTES and at + size <= len(data), "examples"
            )
            found[label].append(data[at : at + size])
            at += size
    require(at == len(data), "examples")
    return found
