"""Pictures that come out the same everywhere: whole-number arithmetic only."""

from __future__ import annotations

import numpy as np
import pytest


def blobs(seed):
    """40 x 48 gray levels, blobs of some pixels."""
    y, x = np.mgrid[:42, :50] + seed
    noise = (7919 * x + 2011 * y + 31 * x * x * y + 17 * x * y * y) % 251
    patches = [noise[i : i + 40, j : j + 48] for i in range(3) for j in range(3)]
    return (sum(patches) // 9).astype(np.uint8)


@pytest.fixture
def gray():
    return blobs(1)


@pytest.fixture
def color():
    return np.stack([blobs(2), blobs(3), blobs(4)], axis=-1)


@pytest.fixture
def random():
    return np.random.default_rng(0)
