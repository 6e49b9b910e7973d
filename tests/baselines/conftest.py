"""Data for comparisons with other implementations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


@pytest.fixture
def small_data() -> tuple[Any, Any, Any]:
    """Four classes of 12 samples with 5 features, and four queries; the same in every NumPy version."""
    y = np.repeat(np.arange(4), 12)
    X = np.sin(np.arange(1, 241) ** 1.5).reshape(48, 5) @ (
        np.eye(5) + 0.3 * np.cos(np.arange(25)).reshape(5, 5)
    )
    X[:, :4] += 2 * np.eye(4)[y]
    return X, y, 3 * np.cos(np.arange(1, 21) ** 1.3).reshape(4, 5)
