"""A real cluster of several processes, and a stream of several parts."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import distributed
from openworld.data.stream import Stream
from openworld.data.streams import open_stream
from openworld.distributed.cluster import DaskEngine

N, D, K = 2600, 6, 8


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Two worker processes."""
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
        host="127.0.0.1",
        silence_logs=logging.CRITICAL,
    ) as cluster:
        yield cluster


@pytest.fixture
def engine(cluster: Any) -> Iterator[DaskEngine]:
    with distributed.Client(cluster, direct_to_workers=True, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
        yield DaskEngine(client)


@pytest.fixture(scope="session")
def data() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(3)
    y = random.integers(0, K, N)
    X = 2.5 * random.standard_normal((K, D))[y] + random.standard_normal((N, D))
    return (X + 10).astype(np.float32), y


@pytest.fixture
def stream(tmp_path: Path, data: tuple[np.ndarray, np.ndarray]) -> Stream:
    """Twenty parts of three batches each: two sums of 16 and 4 parts."""
    X, y = data
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "x.labels.npy", y)
    return open_stream(tmp_path / "x.npy", batch_bytes=50 * 4 * D, part_bytes=130 * 4 * D)


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENWORLD_CACHE", str(tmp_path / "cache"))
    random = np.random.default_rng(0)
    for name, level in (("dark", 40), ("light", 200)):
        folder = tmp_path / "pictures" / name
        folder.mkdir(parents=True)
        for i in range(12):
            pixels = np.clip(level + 20 * random.standard_normal((16, 16, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{i:02d}.png")
    (tmp_path / "pictures" / "light" / "broken.png").write_bytes(b"no picture")
    Image.new("RGB", (16, 16)).save(tmp_path / "pictures" / "loose.png")
    return tmp_path / "pictures"
