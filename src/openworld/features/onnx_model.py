"""Any picture network in an ONNX file, run by onnxruntime.

The file defines the input's shape, type (float32, float16 or uint8) and layout (channels first or last).
Preprocessing is read as JSON, such as ``{"size": [224, 224], "crop": 0.875, "filter": "bicubic",
"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}``, each key optional:

- from the file `resnet18.json` beside `resnet18.onnx`, or else
- from the model's own metadata (`metadata_props`), key `openworld.preparation`, or else
- by default: the size of the input, or 224 x 224 where it is dynamic, and ImageNet's mean and deviation.

The feature is the first output: unchanged if it is one vector per picture, averaged over positions if it is a
map of channels (n, c, h, w), and flattened otherwise. Where the first output has a vector per token
(n, t, d), as exported transformers have, the first with one vector per picture is used (`pooler_output`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.features.extractor import ExtractorId, Kind
from openworld.features.preparation import Preparation

METADATA_KEY = "openworld.preparation"

_VERSION = "1"
_DEFAULT_SIDE = 224
_TYPES: dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(uint8)": np.uint8,
}
# Small batches stay within the processor's caches: faster, and less memory.
_PIXELS_AT_ONCE = 2 * 224 * 224


class OnnxModel:
    """A picture network in ONNX as an extractor.

    Parameters
    ----------
    session : onnxruntime.InferenceSession
        As `open_session` returns it; several threads may use it at once.
    preparation : Preparation
        The preprocessing of each picture.
    id : ExtractorId

    Raises
    ------
    ValueError
        If the network does not take RGB pictures, or does not run.
    """

    kind: Kind = "image"

    def __init__(self, session: Any, preparation: Preparation, id: ExtractorId) -> None:
        self.id = id
        self._session = session
        self._preparation = preparation
        self._input = session.get_inputs()[0]
        self._output = _feature_output(session)
        self._channels_first = _channels_first(session)
        batch = self._input.shape[0]
        self._fixed_batch = batch if isinstance(batch, int) else None
        height, width = preparation.size
        try:
            self.n_features = self.transform([np.zeros((height, width, 3), np.uint8)]).shape[1]
        except Exception as error:  # onnxruntime has many, without a common class
            raise ValueError(f"{id.name} does not run on a picture of {height} x {width}: {error}") from error

    def transform(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        """Return the features of pictures, of shape (n, n_features)."""
        if not len(batch):
            return np.empty((0, self.n_features), np.float32)
        height, width = self._preparation.size
        at_once = self._fixed_batch or max(1, _PIXELS_AT_ONCE // (height * width))
        return np.concatenate(
            [self._run(batch[start : start + at_once]) for start in range(0, len(batch), at_once)]
        )

    def _run(self, pictures: Sequence[Any]) -> NDArray[np.float32]:
        pixels: NDArray[Any] = self._preparation.cut(pictures)
        dtype = _TYPES[self._input.type]
        if dtype is not np.uint8:
            pixels = self._preparation.shift(pixels).astype(dtype, copy=False)
        if self._channels_first:
            pixels = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
        if self._fixed_batch:
            pixels = np.concatenate(
                [pixels, np.zeros_like(pixels, shape=(self._fixed_batch - len(pixels), *pixels.shape[1:]))]
            )
        output: NDArray[Any] = self._session.run([self._output], {self._input.name: pixels})[0]
        if output.ndim == 4:
            output = output.mean(axis=(2, 3) if self._channels_first else (1, 2), dtype=np.float32)
        return output[: len(pictures)].reshape(len(pictures), -1).astype(np.float32, copy=False)


def load_onnx(path: str | Path) -> OnnxModel:
    """Return the network in a file; its id has the file's stem and SHA-256.

    Raises
    ------
    ValueError
        If the file is missing, not an ONNX network, or does not take pictures.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file.")
    session = open_session(path)
    _channels_first(session)
    preparation = _preparation_of(path, session)
    output = _feature_output(session)
    note = "" if output == session.get_outputs()[0].name else f" output {output}"
    id = ExtractorId(f"onnx:{path.stem}", _VERSION, _sha256(path), preparation.describe() + note)
    return OnnxModel(session, preparation, id)


def open_session(source: Path | bytes, *, extra: str = "images") -> Any:
    """Return an onnxruntime session that computes in the calling thread, deterministically.

    `extra` is the extra of this package that installs onnxruntime, for the error message.
    """
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError(f"Deep features need onnxruntime: pip install openworld[{extra}]") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = 3
    what = source if isinstance(source, bytes) else str(source)
    try:
        return onnxruntime.InferenceSession(what, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has many, without a common class
        name = "The network" if isinstance(source, bytes) else source
        raise ValueError(f"{name}: not a readable ONNX network ({error}).") from error


def _feature_output(session: Any) -> str:
    """Return the name of the output that holds the features."""
    first, *others = session.get_outputs()
    if len(first.shape) == 3:
        first = next((output for output in others if len(output.shape) == 2), first)
    return str(first.name)


def _channels_first(session: Any) -> bool:
    """Check that the network takes pictures, and return whether their channels come first."""
    inputs = session.get_inputs()
    shapes = ", ".join(f"{one.name} {one.type} {one.shape}" for one in inputs)
    if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type not in _TYPES:
        raise ValueError(
            "A picture network has one input of four dimensions, float32, float16 or uint8; "
            f"this one has {shapes}."
        )
    shape = inputs[0].shape
    if (shape[1] == 3) == (shape[3] == 3):
        raise ValueError(f"Dimension 2 or 4 of the input must be 3 (RGB); this network has {shapes}.")
    return bool(shape[1] == 3)


def _preparation_of(path: Path, session: Any) -> Preparation:
    beside = path.with_suffix(".json")
    text = session.get_modelmeta().custom_metadata_map.get(METADATA_KEY, "{}")
    where = f"{beside if beside.is_file() else path}"
    try:
        declared = json.loads(beside.read_text(encoding="utf-8") if beside.is_file() else text)
        shape = session.get_inputs()[0].shape
        own = shape[2:4] if _channels_first(session) else shape[1:3]
        size = [side if isinstance(side, int) else _DEFAULT_SIDE for side in own]
        preparation = Preparation.from_dict({"size": size} | declared)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}: its preprocessing settings cannot be read ({error})") from error
    if any(
        isinstance(side, int) and side != given for side, given in zip(own, preparation.size, strict=True)
    ):
        raise ValueError(f"{where}: the network takes pictures of {own}, not of {preparation.size}.")
    return preparation


def _sha256(path: Path) -> str:
    """Hash a network's file, and the file of external weights beside it, if there is one."""
    digest = hashlib.sha256()
    for name in (path.name, f"{path.name}.data", f"{path.name}_data"):
        file = path.with_name(name)
        if file.is_file():
            with file.open("rb") as stream:
                for block in iter(lambda: stream.read(1 << 20), b""):
                    digest.update(block)
    return digest.hexdigest()
