"""The extractor protocol, extractors by name, and ids that tell extractors apart."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Kind = Literal["image", "text"]

DEFAULTS: dict[Kind, str] = {"image": "efficientnet-lite0", "text": "minilm"}


@dataclass(frozen=True)
class ExtractorId:
    """Identity of an extractor: equal ids mean equal features, up to rounding.

    Parameters
    ----------
    name : str
        Such as "efficientnet-lite0", "minilm", "onnx:resnet18"; of a file only its stem, never its path.
    version : str
        Of the computation; raised whenever the features change.
    weights : str
        SHA-256 of all learned parameters; "" if there are none.
    preprocessing : str
        The preprocessing of a picture or sentence, such as "rgb 224 bicubic crop 0.875 (x-127)/128".
    """

    name: str
    version: str
    weights: str
    preprocessing: str

    def as_dict(self) -> dict[str, str]:
        """Return the four fields as a dict, to be written to a file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> ExtractorId:
        """Build the id from the result of `as_dict`."""
        names = [field.name for field in fields(cls)]
        if sorted(d) != sorted(names) or not all(isinstance(d[name], str) for name in names):
            raise ValueError(f"An extractor's id has the text fields {', '.join(names)}; got {dict(d)}.")
        return cls(**d)

    def digest(self) -> str:
        """Return a hash of the id, 16 hexadecimal digits: the key of cached features."""
        text = json.dumps(self.as_dict(), sort_keys=True, ensure_ascii=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def __str__(self) -> str:
        weights = f", weights {self.weights[:12]}" if self.weights else ""
        return f"{self.name} (version {self.version}{weights}, {self.preprocessing})"


class Extractor(Protocol):
    """Turns pictures or sentences into feature vectors.

    `transform` takes pictures (PIL images in RGB, or uint8 arrays of shape (H, W, 3)) or sentences (str), and
    returns one feature vector for each. A vector does not depend on the rest of its batch, up to rounding,
    and `transform` is thread-safe.
    """

    @property
    def kind(self) -> Kind:
        """The kind of input: "image" or "text"."""
        ...

    @property
    def id(self) -> ExtractorId:
        """The identity of the extractor."""
        ...

    @property
    def n_features(self) -> int:
        """The length of a feature vector."""
        ...

    def transform(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        """Return the features of a batch, of shape (n, n_features)."""
        ...


class WrongExtractor(ValueError):
    """Features of one extractor were used with a model that was learned on those of another."""


def require_same(needed: ExtractorId, used: ExtractorId) -> None:
    """Check that features are from the extractor that a model was learned with.

    Raises
    ------
    WrongExtractor
        If the ids differ; the message names both, the difference, and how to get the right one.
    """
    different = [
        field.name for field in fields(needed) if getattr(needed, field.name) != getattr(used, field.name)
    ]
    if different:
        raise WrongExtractor(
            f"The model was learned on features of {needed}; these are of {used}. "
            f"They differ in {' and '.join(different)}. {_how_to_get(needed)}"
        )


def load_extractor(name: str | None = None, *, kind: Kind = "image") -> Extractor:
    """Return an extractor by its name.

    Parameters
    ----------
    name : str, optional
        For pictures "efficientnet-lite0", "efficientnet-lite2" (either with another input side, such as
        "efficientnet-lite0@128"), "onnx:PATH" (or any path that ends in .onnx), "timm:NAME",
        "open_clip:NAME/PRETRAINED", "words:PATH" and "pixels"; for text "minilm", "wordllama",
        "use-multilingual", "ngrams" and "sentence-transformers:NAME_OR_PATH". By default the first of its
        kind.
    kind : {"image", "text"}, default="image"
        Selects the default if no name is given.

    Raises
    ------
    ValueError
        If the name is unknown, or a file cannot be used.
    ImportError
        If a package is missing; the message says what to install.
    """
    name = name or DEFAULTS[kind]
    if name.endswith(".onnx") and ":" not in name:
        name = f"onnx:{name}"
    for separator in (":", "@"):
        prefix, _, rest = name.partition(separator)
        if rest and (with_argument := _LOADERS_WITH_ARGUMENT.get(prefix + separator)):
            return with_argument[1](rest)
    if loader := _LOADERS.get(name):
        return loader()
    known = [*_LOADERS, *(prefix + what for prefix, (what, _) in _LOADERS_WITH_ARGUMENT.items())]
    raise ValueError(f"There is no extractor {name!r}. Choose one of: {', '.join(known)}.")


def extractor_for(id: ExtractorId) -> Extractor:
    """Return the extractor that a model was learned with.

    Raises
    ------
    WrongExtractor
        If it is not available, or differs from the one of that name here; the message says how to get it.
    ImportError
        If its package is missing; the message says what to install.
    """
    if id.name.startswith(("onnx:", "words:")):
        raise WrongExtractor(f"The model was learned on features of {id}. {_how_to_get(id)}")
    try:
        extractor = load_extractor(id.name)
    except ValueError as error:
        raise WrongExtractor(f"The model was learned on features of {id}: {error}") from error
    require_same(id, extractor.id)
    return extractor


def _how_to_get(id: ExtractorId) -> str:
    start, _, stem = id.name.partition(":")
    if start in ("onnx", "words"):
        ending = "onnx" if start == "onnx" else "safetensors"
        return f"Give its file as the extractor, {start}:PATH/{stem}.{ending} (SHA-256 {id.weights})."
    return f"Use the extractor {id.name!r}" + (
        f" with weights of SHA-256 {id.weights}." if id.weights else "."
    )


def _load(module: str, name: str, *arguments: Any) -> Extractor:
    """Import the module of an extractor, with its heavy dependencies, only when it is used."""
    extractor: Extractor = getattr(import_module(f"openworld.features.{module}"), name)(*arguments)
    return extractor


def _efficientnet(name: str, side: str) -> Extractor:
    if not side.isdecimal():
        raise ValueError(f"{name}@SIDE needs a whole number of pixels; got {side!r}.")
    return _load("efficientnet", "load_efficientnet", name, int(side))


_LOADERS: dict[str, Callable[[], Extractor]] = {
    "efficientnet-lite0": lambda: _load("efficientnet", "load_efficientnet", "efficientnet-lite0"),
    "efficientnet-lite2": lambda: _load("efficientnet", "load_efficientnet", "efficientnet-lite2"),
    "pixels": lambda: _load("pixels", "Pixels"),
    "minilm": lambda: _load("minilm", "MiniLM"),
    "wordllama": lambda: _load("wordllama", "WordLlama"),
    "use-multilingual": lambda: _load("multilingual", "MultilingualEncoder"),
    "ngrams": lambda: _load("ngrams", "HashedNgrams"),
}
_LOADERS_WITH_ARGUMENT: dict[str, tuple[str, Callable[[str], Extractor]]] = {
    "efficientnet-lite0@": ("SIDE", lambda side: _efficientnet("efficientnet-lite0", side)),
    "efficientnet-lite2@": ("SIDE", lambda side: _efficientnet("efficientnet-lite2", side)),
    "onnx:": ("PATH", lambda path: _load("onnx_model", "load_onnx", path)),
    "timm:": ("NAME", lambda name: _load("hub_models", "load_timm", name)),
    "open_clip:": ("NAME/PRETRAINED", lambda name: _load("hub_models", "load_open_clip", name)),
    "sentence-transformers:": ("NAME_OR_PATH", lambda name: _load("hub_models", "SentenceModel", name)),
    "words:": ("PATH", lambda path: _load("word_file", "load_words", path)),
}
