"""One thread of BLAS for all who ask, and as many as before when the last one is done."""

from __future__ import annotations

import re

from threadpoolctl import threadpool_info, threadpool_limits

from openworld.recognition.blas import one_blas_thread


def _threads() -> set[int]:
    """Return how many threads numpy and scipy use; other packages may have loaded a BLAS of their own."""
    ours = [found for found in threadpool_info() if found["user_api"] == "blas"]
    return {found["num_threads"] for found in ours if re.search("numpy|scipy", found["filepath"])}


def test_the_number_of_threads_comes_back_whoever_is_done_first() -> None:
    with threadpool_limits(2, "blas"):
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        assert _threads() == {1}
        second.__enter__()
        first.__exit__(None, None, None)
        assert _threads() == {1}
        second.__exit__(None, None, None)
        assert _threads() == {2}
