from __future__ import annotations

import numpy as np
from PIL import Image

from openworld.features import load_extractor


def test_gray_levels_of_a_picture_of_the_right_size_are_its_own(random):
    gray = random.integers(0, 256, (32, 32), dtype=np.uint8)
    X = load_extractor("pixels").transform([Image.fromarray(gray), np.stack([gray] * 3, axis=-1)])
    np.testing.assert_allclose(X[0], gray.ravel() / 255, atol=1e-7)
    np.testing.assert_array_equal(X[0], X[1])


def test_any_size_becomes_1024_values(color):
    extractor = load_extractor("pixels")
    X = extractor.transform([color, np.full((1, 9, 3), 51, np.uint8)])
    assert X.shape == (2, extractor.n_features) == (2, 1024)
    assert X.dtype == np.float32
    np.testing.assert_allclose(X[1], 0.2, atol=1e-7)
    assert extractor.transform([]).shape == (0, 1024)
