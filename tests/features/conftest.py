"""Pictures made by integer arithmetic, the same everywhere; and a hub that answers, or does not."""

from __future__ import annotations

import socket

import numpy as np
import pytest

from openworld.features import hub


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


@pytest.fixture
def hub_settings(monkeypatch):
    """No settings of the Hugging Face hub, and no proxy."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_ENDPOINT"):
        monkeypatch.setenv(name, "")  # so that what a test sets is unset after it
        monkeypatch.delenv(name)
    monkeypatch.setattr(hub, "getproxies", dict)


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def nobody(server):
    """An address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    return f"http://127.0.0.1:{port}"
