"""Mean word vectors from the wheel `wordllama`: the fast features of text.

Table and tokenizer are read from the wheel's files. Its code is not run: it looks for the tokenizer in a
folder that the wheel does not have, and then tries to download it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load
from scipy.sparse import csr_array

from openworld.features.extractor import ExtractorId, Kind
from openworld.features.wheel_files import wheel_folder

_TABLE = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"


class WordLlama:
    """Mean of the vectors of a sentence's tokens, 256 values; zero for an empty sentence.

    Raises
    ------
    ImportError
        If a package is missing; the message says what to install.
    """

    kind: Kind = "text"

    def __init__(self) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise ImportError("wordllama needs tokenizers: pip install openworld[text]") from error
        folder = wheel_folder("wordllama", requirement="openworld[text]")
        table, tokenizer = (folder / _TABLE).read_bytes(), (folder / _TOKENIZER).read_bytes()
        (vectors,) = load(table).values()
        self._vectors: NDArray[np.float32] = vectors.astype(np.float32)
        self._tokenizer = Tokenizer.from_str(tokenizer.decode("utf-8"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self.n_features = self._vectors.shape[1]
        weights = hashlib.sha256(table + tokenizer).hexdigest()
        self.id = ExtractorId("wordllama", "1", weights, "l2_supercat tokens, mean of their vectors")

    def transform(self, batch: Sequence[str]) -> NDArray[np.float32]:
        """Return the features of sentences, of shape (n, 256)."""
        tokens = [
            found.ids for found in self._tokenizer.encode_batch_fast(list(batch), add_special_tokens=False)
        ]
        lengths = np.array([len(ids) for ids in tokens], dtype=np.int64)
        ids = np.fromiter(chain.from_iterable(tokens), np.int64, lengths.sum())
        ids = np.minimum(ids, len(self._vectors) - 1)  # as wordllama does with the tokens its table lacks
        shares = np.repeat(np.float32(1) / np.maximum(lengths, 1).astype(np.float32), lengths)
        starts = np.concatenate([[0], lengths.cumsum()])
        counts = csr_array((shares, ids, starts), shape=(len(batch), len(self._vectors)))
        return np.asarray(counts @ self._vectors)
