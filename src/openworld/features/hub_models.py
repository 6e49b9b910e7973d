"""Networks of timm, open_clip and sentence-transformers, where these are installed.

A name is one of the library's own, downloaded from its hub, or the path of a local copy. These libraries run
on torch, which is never a dependency of this package.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.features.extractor import ExtractorId, Kind
from openworld.features.hub import go_offline_unless_reachable
from openworld.features.preparation import as_image

_VERSION = "1"
_AT_ONCE = 8  # batch size; bounds memory


class TorchPictureModel:
    """A picture network that runs on torch, in the calling thread.

    Parameters
    ----------
    name : str
    model : torch.nn.Module
    encode : callable
        Tensor of pictures -> tensor of features.
    prepare : callable
        PIL image -> tensor.
    preprocessing : str
        What `prepare` does.
    """

    kind: Kind = "image"

    def __init__(
        self,
        name: str,
        model: Any,
        encode: Callable[[Any], Any],
        prepare: Callable[[Any], Any],
        preprocessing: str,
    ) -> None:
        self._torch = import_module("torch")
        self._torch.set_num_threads(1)
        model.eval()
        self._encode, self._prepare = encode, prepare
        self.id = ExtractorId(name, _VERSION, _weights_hash(model), preprocessing)
        self.n_features = self.transform([np.zeros((64, 64, 3), np.uint8)]).shape[1]

    def transform(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        """Return the features of pictures, of shape (n, n_features)."""
        if not len(batch):
            return np.empty((0, self.n_features), np.float32)
        rows = []
        with self._torch.inference_mode():
            for start in range(0, len(batch), _AT_ONCE):
                pictures = [self._prepare(as_image(picture)) for picture in batch[start : start + _AT_ONCE]]
                rows.append(self._encode(self._torch.stack(pictures)).float().numpy())
        return np.concatenate(rows).astype(np.float32, copy=False)


def load_timm(name: str) -> TorchPictureModel:
    """Return a network of timm, without its classifier."""
    timm = _library("timm", "timm")
    local = Path(name).is_dir()
    model = _fetched(
        f"timm:{name}",
        lambda: timm.create_model(f"local-dir:{name}" if local else name, pretrained=True, num_classes=0),
    )
    settings = timm.data.resolve_model_data_config(model)
    described = " ".join(f"{key} {settings[key]}" for key in sorted(settings))
    prepare = timm.data.create_transform(**settings, is_training=False)
    return TorchPictureModel(f"timm:{Path(name).name if local else name}", model, model, prepare, described)


def load_open_clip(name: str) -> TorchPictureModel:
    """Return the image encoder of a CLIP; the name is NETWORK/WEIGHTS."""
    open_clip = _library("open_clip", "open_clip_torch")
    network, _, weights = name.partition("/")
    if not weights:
        raise ValueError(f"open_clip:{name} needs its weights as well: open_clip:NAME/PRETRAINED, or a path.")
    model, _, prepare = _fetched(
        f"open_clip:{name}", lambda: open_clip.create_model_and_transforms(network, pretrained=weights)
    )
    described = " ".join(str(prepare).split())
    short = f"open_clip:{network}/{Path(weights).name}"
    return TorchPictureModel(short, model, model.encode_image, prepare, described)


class SentenceModel:
    """A sentence encoder of sentence-transformers.

    Parameters
    ----------
    name : str
        Of the hub, or the path of a folder.
    """

    kind: Kind = "text"

    def __init__(self, name: str) -> None:
        library = _library("sentence_transformers", "sentence-transformers")
        self._model = _fetched(
            f"sentence-transformers:{name}", lambda: library.SentenceTransformer(name, device="cpu")
        )
        import_module("torch").set_num_threads(1)
        short = Path(name).name if Path(name).is_dir() else name
        described = f"at most {self._model.max_seq_length} tokens"
        self.id = ExtractorId(
            f"sentence-transformers:{short}", _VERSION, _weights_hash(self._model), described
        )
        self.n_features = self.transform(["one"]).shape[1]

    def transform(self, batch: Sequence[str]) -> NDArray[np.float32]:
        """Return the features of sentences, of shape (n, n_features)."""
        if not len(batch):
            return np.empty((0, self.n_features), np.float32)
        rows = self._model.encode(list(batch), convert_to_numpy=True, show_progress_bar=False)
        return np.asarray(rows, dtype=np.float32)


def _library(module: str, package: str) -> Any:
    """Import a library after setting the offline flags, which it reads on import."""
    go_offline_unless_reachable()
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"This extractor needs {package}: pip install {package}") from error


def _fetched(name: str, fetch: Callable[[], Any]) -> Any:
    try:
        return fetch()
    except Exception as error:  # each library raises errors of its own
        hint = "" if go_offline_unless_reachable() else " The hub of models cannot be reached from here."
        raise ValueError(
            f"{name} cannot be loaded ({error}).{hint} Check the name, or give the path of a local copy."
        ) from error


def _weights_hash(model: Any) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensor.detach().cpu().float().numpy()).tobytes())
    return digest.hexdigest()
