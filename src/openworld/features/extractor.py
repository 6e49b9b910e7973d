"""What turns pictures or sentences into features, and how it is known again: `Extractor` and its id."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Kind = Literal["image", "text"]

DEFAULTS: dict[Kind, str] = {"image": "efficientnet-lite0", "text": "wordllama"}


@dataclass(frozen=True)
class ExtractorId:
    """Which extractor it is: two equal ids give equal features, up to rounding.

    Parameters
    ----------
    name : str
        Such as "efficientnet-lite0", "wordllama", "onnx:resnet18"; of a file only its stem, never its path.
    version : str
        Of the way the extractor computes; raised whenever its features change.
    weights : str
        SHA-256 of all that was learned; "" when nothing was.
    preprocessing : str
        What is done to a picture or a sentence first, such as "rgb 224 bicubic crop 0.875 (x-127)/128".
    """

    name: str
    version: str
    weights: str
    preprocessing: str

    def as_dict(self) -> dict[str, str]:
        """Return the four fields, to be written into a file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> ExtractorId:
        """Build the id again from what `as_dict` returned."""
        names = [field.name for field in fields(cls)]
        if sorted(d) != sorted(names) or not all(isinstance(d[name], str) for name in names):
            raise ValueError(f"An extractor's id has the text fields {', '.join(names)}; got {dict(d)}.")
        return cls(**d)

    def digest(self) -> str:
        """Return 16 hexadecimal digits that stand for the id, the key of cached features."""
        text = json.dumps(self.as_dict(), sort_keys=True, ensure_ascii=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def __str__(self) -> str:
        weights = f", weights {self.weights[:12]}" if self.weights else ""
        return f"{self.name} (version {self.version}{weights}, {self.preprocessing})"


class Extractor(Protocol):
    """Makes features of pictures or of sentences.

    `transform` takes pictures (PIL images in RGB, or uint8 arrays of shape (H, W, 3)) or sentences (str), and
    returns one row of features for each. A row does not depend on the others of its batch, up to rounding,
    and several threads may call `transform` at once.
    """

    @property
    def kind(self) -> Kind:
        """What it takes: "image" or "text"."""
        ...

    @property
    def id(self) -> ExtractorId:
        """Which extractor it is."""
        ...

    @property
    def n_features(self) -> int:
        """The length of a feature."""
        ...

    def transform(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        """Return the features of a batch, of shape (n, n_features)."""
        ...


class WrongExtractor(ValueError):
    """Features of one extractor were about to be used with a model learned on those of another."""


def require_same(needed: ExtractorId, used: ExtractorId) -> None:
    """Refuse features that are not of the extractor a model was learned with.

    Raises
    ------
    WrongExtractor
        If the ids differ; the message names both, what differs, and how to get the one needed.
    """
    different = [
        field.name for field in fields(needed) if getattr(needed, field.name) != getattr(used, field.name)
    ]
    if different:
        raise WrongExtractor(
            f"The model was learned on features of {needed}; these are of {used}: "
            f"other {' and '.join(different)}. {_how_to_get(needed)}"
        )


def load_extractor(name: str | None = None, *, kind: Kind = "image") -> Extractor:
    """Return an extractor by its name.

    Parameters
    ----------
    name : str, optional
        For pictures "efficientnet-lite0" (or with the side of its input, "efficientnet-lite0@128"),
        "onnx:PATH" (or any path that ends in .onnx), "timm:NAME", "open_clip:NAME/PRETRAINED", "words:PATH"
        and "pixels"; for text "wordllama", "ngrams" and "sentence-transformers:NAME_OR_PATH". By default the
        first of its kind.
    kind : {"image", "text"}, default="image"
        Chooses the default when there is no name.

    Raises
    ------
    ValueError
        If the name is unknown, or a file is not what its name says.
    ImportError
        If a package is missing; the message says what to install.
    """
    name = name or DEFAULTS[kind]
    if name.endswith(".onnx") and ":" not in name:
        name = f"onnx:{name}"
    for separator in (":", "@"):
        start, found, rest = name.partition(separator)
        if found and rest and (loader := _LOADERS_WITH_MORE.get(start + separator)):
            return loader(rest)
    if loader_of_all := _LOADERS.get(name):
        return loader_of_all()
    known = [*_LOADERS, *(f"{start}{what}" for start, what in _WHAT_FOLLOWS.items())]
    raise ValueError(f"There is no extractor {name!r}; there are {', '.join(known)}.")


def extractor_for(id: ExtractorId) -> Extractor:
    """Return the extractor a model was learned with.

    Raises
    ------
    WrongExtractor
        If it is not to be had here, or what is here under its name differs; the message says how to get it.
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


def _efficientnet(side: str = "224") -> Extractor:
    from openworld.features.efficientnet import load_efficientnet_lite0

    if not side.isdecimal():
        raise ValueError(f"efficientnet-lite0@SIDE needs a whole number of pixels; got {side!r}.")
    return load_efficientnet_lite0(int(side))


def _onnx(path: str) -> Extractor:
    from openworld.features.onnx_model import load_onnx

    return load_onnx(path)


def _timm(name: str) -> Extractor:
    from openworld.features.hub_models import load_timm

    return load_timm(name)


def _open_clip(name: str) -> Extractor:
    from openworld.features.hub_models import load_open_clip

    return load_open_clip(name)


def _sentence_transformers(name: str) -> Extractor:
    from openworld.features.hub_models import SentenceModel

    return SentenceModel(name)


def _words(path: str) -> Extractor:
    from openworld.features.word_file import load_words

    return load_words(path)


def _pixels() -> Extractor:
    from openworld.features.pixels import Pixels

    return Pixels()


def _wordllama() -> Extractor:
    from openworld.features.wordllama import WordLlama

    return WordLlama()


def _ngrams() -> Extractor:
    from openworld.features.ngrams import HashedNgrams

    return HashedNgrams()


_LOADERS: dict[str, Callable[[], Extractor]] = {
    "efficientnet-lite0": _efficientnet,
    "pixels": _pixels,
    "wordllama": _wordllama,
    "ngrams": _ngrams,
}
_LOADERS_WITH_MORE: dict[str, Callable[[str], Extractor]] = {
    "efficientnet-lite0@": _efficientnet,
    "onnx:": _onnx,
    "timm:": _timm,
    "open_clip:": _open_clip,
    "sentence-transformers:": _sentence_transformers,
    "words:": _words,
}
_WHAT_FOLLOWS = {
    "efficientnet-lite0@": "SIDE",
    "onnx:": "PATH",
    "timm:": "NAME",
    "open_clip:": "NAME/PRETRAINED",
    "sentence-transformers:": "NAME_OR_PATH",
    "words:": "PATH",
}
