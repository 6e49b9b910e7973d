"""The pages and labels with many pending samples, against the same with 200.

python -m benchmarks.speed.pages
python -m benchmarks.speed.pages --pending 100000
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from pathlib import Path
from time import perf_counter, sleep

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
LABELS, PAUSE = 100, 0.2
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


def _page_times(client: TestClient) -> dict[str, tuple[float, float]]:
    """Return, for each page, the seconds of its first view and the median of the next ones."""
    return {name: _times(client, path) for name, path in PAGES.items()}


def _times(client: TestClient, path: str) -> tuple[float, float]:
    times = []
    for _ in range(1 + ROUNDS):
        started = perf_counter()
        client.get(path).raise_for_status()
        times.append(perf_counter() - started)
    return times[0], float(np.median(times[1:]))


def _label_times(client: TestClient) -> list[float]:
    """Label a small cluster again and again, while the pool is judged by the version before."""
    times = []
    clusters = client.get("/v1/clusters?limit=1000").raise_for_status().json()["clusters"]
    small = [cluster["id"] for cluster in clusters if cluster["size"] <= 25]
    for i, cluster in enumerate(small[:LABELS]):
        body = {"cluster_id": cluster, "label": f"new {i}"}
        started = perf_counter()
        client.post("/v1/label", json=body).raise_for_status()
        times.append(perf_counter() - started)
        sleep(PAUSE)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pending", type=int, default=20_000)
    many = parser.parse_known_args()[0].pending
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    pages, labels = {}, {}
    for n in (200, many):
        with tempfile.TemporaryDirectory() as folder, _world(folder, n) as world:
            app = create_app(world, ServiceSettings(clustering=False, log_level="error"))
            with TestClient(app, base_url="http://127.0.0.1") as client:
                pages[n], labels[n] = _page_times(client), _label_times(client)
    print(f"{'':28}{'200 pending':>14}{f'{many:,} pending: first view, then':>34}{'ratio':>8}")
    for name in PAGES:
        (_, few), (first, then) = pages[200][name], pages[many][name]
        print(f"{name:28}{1e3 * few:11.0f} ms{1e3 * first:22.0f} ms{1e3 * then:6.0f} ms{then / few:8.1f}")
    for n, times in labels.items():
        p50, p99 = 1e3 * np.percentile(times, [50, 99])
        print(f"{len(times)} labels of clusters, {n:,} pending: p50 {p50:.0f} ms, p99 {p99:.0f} ms")


if __name__ == "__main__":
    main()
