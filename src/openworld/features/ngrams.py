"""Features of text that need nothing but scikit-learn: hashed pieces of words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from openworld.features.extractor import ExtractorId, Kind

_PREPROCESSING = "lower case, 2 to 4 characters within words, signed hash, length 1"


class HashedNgrams:
    """How often each run of 2 to 4 characters occurs in a sentence, hashed to 2,048 places, of length 1.

    Nothing is learned, so any alphabet will do; but words of one meaning and other letters are strangers.
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
