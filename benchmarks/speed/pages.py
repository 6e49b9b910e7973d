"""The pages with 20,000 pending samples, against the same pages with 200.

python -m benchmarks.speed.pages
"""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import structlog
from fastapi.testclient import TestClient

from openworld import EuclideanMetric, NearestNonOutlier
from openworld.service.app import create_app
from openworld.service.settings import ServiceSettings
from openworld.service.world import World
from openworld.store.records import ClusterDraft, SampleContent

N_FEATURES = 128
ROUNDS = 10
PAGES = {
    "list of clusters": "/",
    "next cards of the list": "/unknowns/cards?start=48",
    "largest cluster": "/unknowns/group?cluster=1",
    "next tiles of it": "/unknowns/members?cluster=1&after=119,120",
    "next cluster": "/unknowns/next/address?cluster=1",
    "not in a cluster": "/unknowns/group",
    "recognized": "/recognized",
}


def _world(folder: str, n: int) -> World:
    """Return a world with n pending samples: a fifth in one cluster, most in small ones, some in none."""
    random = np.random.default_rng(0)
    known = random.normal(size=(20, N_FEATURES))
    model = NearestNonOutlier(EuclideanMetric(standardize=False), tau=1.0)
    model.fit(known, [f"class {i % 5}" for i in range(20)])
    world = World.open(f"sqlite:///{Path(folder) / f'{n}.db'}", model)
    ids: list[int] = []
    for start in range(0, n, 2000):
        size = min(2000, n - start)
        X = (10 + 5 * random.normal(size=(size, N_FEATURES))).astype(np.float32)
        items = [SampleContent("image", None, f"{start + i}.jpg", bytes(8000)) for i in range(size)]
        ids += [i for i in world.recognize(X, items).sample_ids if i is not None]
    large, rest = ids[: n // 5], ids[n // 5 : -n // 20]
    world.clusters.replace(
        [
            ClusterDraft(large, large[0]),
            *(ClusterDraft(rest[i : i + 25], rest[i]) for i in range(0, len(rest), 25)),
        ]
    )
    return world


def _seconds(client: TestClient, path: str) -> float:
    times = []
    for _ in range(ROUNDS):
        started = perf_counter()
        client.get(path).raise_for_status()
        times.append(perf_counter() - started)
    return float(np.median(times))


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    found: dict[int, dict[str, float]] = {}
    for n in (200, 20_000):
        with tempfile.TemporaryDirectory() as folder, _world(folder, n) as world:
            app = create_app(world, ServiceSettings(clustering=False, log_level="error"))
            with TestClient(app, base_url="http://127.0.0.1") as client:
                found[n] = {name: _seconds(client, path) for name, path in PAGES.items()}
    print(f"{'page, median of ' + str(ROUNDS):28}{'200 pending':>14}{'20,000 pending':>16}{'ratio':>8}")
    for name in PAGES:
        few, many = found[200][name], found[20_000][name]
        print(f"{name:28}{1e3 * few:11.0f} ms{1e3 * many:13.0f} ms{many / few:8.1f}")


if __name__ == "__main__":
    main()
