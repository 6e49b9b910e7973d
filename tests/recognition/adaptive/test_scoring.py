"""The largest scores of each sample, however they are looked for."""

from __future__ import annotations

import numpy as np
import pytest

from openworld.recognition.adaptive.scoring import _largest


@pytest.mark.parametrize("n_classes", [3, 63, 64, 200])
@pytest.mark.parametrize("n", [1, 2, 5, 16, 17])
def test_the_largest_scores_come_first_and_of_equals_the_first_class(n, n_classes):
    scores = np.random.default_rng(n).integers(0, 9, (50, n_classes)).astype(np.float32)
    before, n = scores.copy(), min(n, n_classes)
    found, largest = _largest(scores, n)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    chosen = np.take_along_axis(scores, expected, axis=1)
    np.testing.assert_array_equal(largest, chosen)
    np.testing.assert_array_equal(np.take_along_axis(scores, found, axis=1), chosen)
    assert all(len(set(row)) == n for row in found.tolist())
    if n <= 16 and n_classes >= 64:
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(scores, before)
