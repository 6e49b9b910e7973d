"""Settings for all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

# Examples come out the same in every run, and no machine is too slow for them.
settings.register_profile("openworld", derandomize=True, deadline=None)
settings.load_profile("openworld")


@pytest.fixture(autouse=True, scope="session")
def _one_blas_thread() -> Iterator[None]:
    """Keep BLAS on one thread: tests measure answers, not speed, and the machine is shared."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with threadpool_limits(1):
        yield
