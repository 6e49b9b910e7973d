"""Recognition of a stream."""

from __future__ import annotations

import numpy as np

from openworld import EuclideanMetric, NearestClassMean, OpenWorldRecognizer
from openworld.data.stream import Stream
from openworld.distributed import recognize
from openworld.samples import Extraction

Data = tuple[np.ndarray, np.ndarray]
PIXELS = Extraction("pixels")


def test_recognize_returns_the_judgement_of_the_model(stream: Stream, data: Data) -> None:
    X, y = data
    for model in (OpenWorldRecognizer(n_lifted=0).fit(X, y), NearestClassMean(EuclideanMetric()).fit(X, y)):
        found = list(recognize(model, stream))
        nearest, distances = model.nearest_classes(X, 1)
        assert np.array_equal(np.concatenate([part.judgement.labels for part in found]), model.predict(X))
        assert np.array_equal(np.concatenate([part.judgement.nearest for part in found]), nearest)
        assert np.allclose(np.concatenate([part.judgement.distances for part in found]), distances)
        assert np.array_equal(np.concatenate([part.batch.y for part in found]), y)
        assert np.array_equal(np.concatenate([part.batch.rows for part in found]), np.arange(len(X)))
