"""The radial factor, quickly for short samples and exactly for all."""

import numpy as np
import pytest

from openworld.recognition.adaptive.radial import lengths_of, radial_factor


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("length", [0.0, 0.5, 0.98, 0.995, 1.0, 1.001, 1.5, 2.0, 1e30])
def test_every_sample_has_the_factor_of_its_length(dtype, length):
    samples = np.random.default_rng(0).standard_normal((20, 300))
    samples = (length * samples / np.linalg.norm(samples, axis=1, keepdims=True)).astype(dtype)
    radii = np.array([3.0, 1.0])
    expected = np.clip(2 - lengths_of(samples)[:, np.newaxis] / radii, 0, 1)
    np.testing.assert_array_equal(np.broadcast_to(radial_factor(samples, radii), (20, 2)), expected)
