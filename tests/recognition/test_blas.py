"""The number of BLAS threads: one for all who ask, restored by the last; one for a server."""

from __future__ import annotations

import os
import re
import subprocess
import sys

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


def _after_limiting(**given: str) -> list[str]:
    """Return what a new process says: the environment variable, and the threads before and after."""
    program = (
        "import os\n"
        "from tests.recognition.test_blas import _threads\n"
        "from openworld.recognition.blas import limit_blas_threads\n"
        "before = _threads()\n"
        "limit_blas_threads()\n"
        "print(os.environ['OPENBLAS_NUM_THREADS'], *before, *_threads())"
    )
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=kept | given, capture_output=True, text=True, check=True
    )
    return ran.stdout.split()


def test_a_process_is_limited_to_one_thread() -> None:
    variable, _, after = _after_limiting()
    assert (variable, after) == ("1", "1")


def test_the_environment_sets_another_number() -> None:
    variable, before, after = _after_limiting(OPENBLAS_NUM_THREADS="2")
    assert (variable, after) == ("2", before)
