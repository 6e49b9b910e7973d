"""Hashed character n-grams: features of text that need only scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from openworld.features.extractor import ExtractorId, Kind

_PREPROCESSING = "lower case, 2 to 4 characters within words, signed hash, length 1"


class HashedNgrams:
    """Counts of 2 to 4 characters within words, hashed to 2,048 values, scaled to unit length.

    Nothing is learned, so any alphabet works, but synonyms have nothing in common.
    """

    kind: Kind = "text"
    id = ExtractorId("ngrams", "1", "", _PREPROCESSING)
    n_features = 2048

    def transform(self, batch: Sequence[str]) -> NDArray[np.float32]:
        """Return the features of sentences, of shape (n, 2048)."""
        from sklearn.feature_extraction.text import HashingVectorizer

        if not len(batch):
            return np.empty((0, self.n_features), np.float32)
        vectorizer = HashingVectorizer(
            analyzer="char_wb", ngram_range=(2, 4), n_features=self.n_features, dtype=np.float32
        )
        return np.asarray(vectorizer.transform(list(batch)).toarray())
