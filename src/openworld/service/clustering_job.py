"""Clusters of the pool, kept up to date in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from time import monotonic
from typing import Any

import numpy as np
import structlog
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from openworld.discovery import Cancelled, PoolMap, find_clusters, map_2d
from openworld.discovery.clusters import MIN_SIZE
from openworld.service.results import ClusterDraft
from openworld.service.world import World

_PAGE = 10_000
_ENOUGH_NEW = 0.02  # of the pool
_LOOKS_A_SECOND = 4
_log = structlog.get_logger("openworld.clustering")


Tell = Callable[[str, Mapping[str, Any]], None]


@dataclass(frozen=True)
class JobState:
    """How far the clustering is; the last one took `seconds`."""

    running: bool
    done: int
    total: int
    seconds: float | None


class ClusteringJob:
    """A thread that clusters the pending samples when enough of them are new.

    It works on one thread of the native libraries and stores what it found at the end, so requests go on.
    Of several servers on a database one does it, and the others show what it found.

    Parameters
    ----------
    world : World
    pause : float
        Least seconds between two runs.
    tell : callable
        Told of progress, as ``tell("clustering", {"done": 100, "total": 2000})``.
    """

    def __init__(self, world: World, pause: float, tell: Tell) -> None:
        self._world, self._pause, self._tell = world, pause, tell
        self._closing = threading.Event()
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None
        self._state = JobState(False, 0, 0, None)
        self._told = 0.0

    def start(self) -> None:
        """Begin to watch the pool."""
        self._wanted.set()
        self._thread = threading.Thread(target=self._run, name="openworld-clustering", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Give up what is under way and stop."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def refresh(self) -> None:
        """Cluster as soon as may be, however little has changed."""
        self._wanted.set()

    @property
    def state(self) -> JobState:
        """How far it is."""
        return self._state

    def places(self) -> dict[int, tuple[float, float, int | None]]:
        """Return where the pending samples stood on the map at the last run, and their clusters now."""
        where = _read_map(self._world)
        if where is None:
            return {}
        ids, clusters = self._world.pending()
        positions, here = where.find(ids)
        columns = zip(ids[here].tolist(), *positions[here].T.tolist(), clusters[here].tolist(), strict=True)
        return {sample: (x, y, None if cluster < 0 else cluster) for sample, x, y, cluster in columns}

    def _run(self) -> None:
        n_new, n_pool, ended = 0, 0, -self._pause
        with self._world.subscribe() as subscription:
            while not self._closing.is_set():
                change = subscription.get(1 / _LOOKS_A_SECOND)
                if change is not None:
                    n_new += change.data.get("samples", 0) if change.kind == "unknown" else 0
                    n_new += change.data.get("returned", 0) if change.kind == "rescored" else 0
                    if change.kind == "clusters" and not change.here:  # another server was quicker
                        n_new, n_pool, ended = 0, change.data.get("samples", n_pool), monotonic()
                enough = n_new >= max(MIN_SIZE, _ENOUGH_NEW * n_pool)
                if not (enough or self._wanted.is_set()) or monotonic() - ended < self._pause:
                    continue
                try:
                    with self._world.turn("cluster", wait=False) as mine:
                        if not mine:  # wait for what the one at work finds, or for its end
                            continue
                        n_new = 0
                        self._wanted.clear()
                        n_pool = self.run_once()
                except Cancelled:
                    return
                except Exception:  # a database that is away for a while must not end this for good
                    _log.exception("The pool could not be clustered; trying again.")
                    self._wanted.set()
                ended = monotonic()

    def run_once(self) -> int:
        """Cluster the pool as it is, in this thread, and return how many samples it has."""
        started = monotonic()
        self._report(0, 0)
        try:
            ids, previous = self._pending()
            with threadpool_limits(1):
                vectors = self._in_metric(ids)
                found = find_clusters(
                    vectors, ids, previous, progress=self._report, cancelled=self._closing.is_set
                )
                _write_map(self._world, map_2d(vectors, ids, found, _read_map(self._world)))
            self._world.set_clusters(
                [
                    ClusterDraft(
                        cluster.members.tolist(),
                        int(cluster.medoid),
                        cluster.id if cluster.id in previous else None,
                    )
                    for cluster in found.clusters
                ]
            )
        finally:
            seconds = monotonic() - started
            self._state = replace(self._state, running=False, seconds=seconds)
        self._tell("clustering", {"done": len(ids), "total": len(ids)})
        _log.info("clustered", samples=len(ids), clusters=len(found.clusters), seconds=round(seconds, 3))
        return len(ids)

    def _pending(self) -> tuple[NDArray[np.int64], dict[int, list[int]]]:
        """Return the pending samples, and those of each cluster there is."""
        ids, clusters = self._world.pending()
        order = np.argsort(clusters, kind="stable")
        names, starts = np.unique(clusters[order], return_index=True)
        members = dict(zip(names.tolist(), np.split(ids[order], starts[1:]), strict=True)) if len(ids) else {}
        return ids, {name: group.tolist() for name, group in members.items() if name >= 0}

    def _in_metric(self, ids: NDArray[np.int64]) -> NDArray[np.floating[Any]]:
        """Return the samples in metric space."""
        parts = [
            self._world.in_metric(self._world.features(ids[start : start + _PAGE].tolist()))
            for start in range(0, len(ids), _PAGE)
        ]
        return np.concatenate(parts) if parts else np.empty((0, 1), dtype=np.float32)

    def _report(self, done: int, total: int) -> None:
        self._state = replace(self._state, running=True, done=done, total=total)
        now = monotonic()
        if total and now - self._told >= 1 / _LOOKS_A_SECOND:
            self._told = now
            self._tell("clustering", {"done": done, "total": total})


def _read_map(world: World) -> PoolMap | None:
    data = world.kept("map")
    if data is None:
        return None
    with np.load(BytesIO(data)) as arrays:
        return PoolMap(arrays["ids"], arrays["positions"])


def _write_map(world: World, where: PoolMap) -> None:
    file = BytesIO()
    np.savez(file, ids=where.ids, positions=where.positions)
    world.keep("map", file.getvalue())
