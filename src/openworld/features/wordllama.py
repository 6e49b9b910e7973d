"""Features of text: the mean of its words' vectors in the table of the wheel `wordllama`; the default.

The table and the tokenizer are read from the wheel's files. Its own code is not run: it would look for the
tokenizer in a folder that the wheel does not have, and then ask the network for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load
from scipy.sparse import csr_array

from openworld.features.extractor import ExtractorId, Kind

_TABLE = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"


class WordLlama:
    """The mean of the vectors of a sentence's tokens, 256 values, not scaled; zero where there are no tokens.

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
        folder = _folder()
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


def _folder() -> Path:
    found = find_spec("wordllama")
    if found is None or not found.submodule_search_locations:
        raise ImportError(
            "Features of text are the vectors in the wheel wordllama: pip install openworld[text] "
            "(or use the extractor 'ngrams', which needs nothing)"
        )
    return Path(found.submodule_search_locations[0])
