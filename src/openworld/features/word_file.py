"""Visual words as a file and as an extractor."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save
from sklearn.utils.validation import check_is_fitted

from openworld.features.dense_sift import DenseSIFT
from openworld.features.extractor import ExtractorId, Kind
from openworld.features.hog import HOG
from openworld.features.lbp import LBP
from openworld.features.preparation import as_image
from openworld.features.visual_words import VisualWords
from openworld.files import write_atomic

_LONGEST_SIDE = 300  # pixels, as in the features of the ILSVRC'10 competition
_DESCRIPTORS: dict[str, type[Any]] = {"DenseSIFT": DenseSIFT, "HOG": HOG, "LBP": LBP}


class WordHistograms:
    """Histograms of visual words; pictures with a side over 300 pixels are made smaller first.

    Parameters
    ----------
    words : VisualWords
        Fitted.
    name : str
        Of its file, without folder and ending.
    """

    kind: Kind = "image"

    def __init__(self, words: VisualWords, name: str) -> None:
        check_is_fitted(words)
        self._words = words
        self.n_features = len(words.words_)
        weights = hashlib.sha256(np.ascontiguousarray(words.words_).tobytes()).hexdigest()
        preprocessing = f"rgb longest side {_LONGEST_SIDE} bicubic, {_recipe(words)}"
        self.id = ExtractorId(f"words:{name}", "1", weights, preprocessing)

    def transform(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        """Return the histograms of pictures, of shape (n, n_words)."""
        return self._words.transform([_small(picture) for picture in batch])


def save_words(words: VisualWords, path: str | Path) -> None:
    """Write fitted visual words to a file, to be loaded as the extractor ``words:PATH``.

    Raises
    ------
    ValueError
        If the descriptor is not one of this package.
    """
    check_is_fitted(words)
    write_atomic(Path(path), save({"words": words.words_}, {"visual_words": _recipe(words)}))


def load_words(path: str | Path) -> WordHistograms:
    """Return the visual words in a file that `save_words` wrote.

    Raises
    ------
    ValueError
        If the file is missing or not such a file.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        recipe = json.loads(header["__metadata__"]["visual_words"])
        parameters = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in recipe["parameters"].items()
        }
        descriptor = _DESCRIPTORS[recipe["descriptor"]](**parameters)
        words = VisualWords(descriptor, normalization=recipe["normalization"])
        words.words_ = load(content)["words"]
        words.n_words = len(words.words_)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise ValueError(f"{path}: not a file of visual words that can be read ({error!r}).") from error
    return WordHistograms(words, path.stem)


def _recipe(words: VisualWords) -> str:
    """Return all settings as JSON, without the words."""
    descriptor = DenseSIFT() if words.descriptor is None else words.descriptor
    name = type(descriptor).__name__
    if type(descriptor) is not _DESCRIPTORS.get(name):
        raise ValueError(
            f"Only words of {', '.join(_DESCRIPTORS)} can be kept in a file; these are of {name}."
        )
    recipe = {"descriptor": name, "parameters": asdict(descriptor), "normalization": words.normalization}  # type: ignore[call-overload]
    return json.dumps(recipe, sort_keys=True)


def _small(picture: Any) -> NDArray[np.uint8]:
    image = as_image(picture)
    if max(image.size) > _LONGEST_SIDE:
        scale = _LONGEST_SIDE / max(image.size)
        image = image.resize((max(1, round(image.width * scale)), max(1, round(image.height * scale))))
    return np.asarray(image)
