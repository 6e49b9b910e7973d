"""The clustering job: clusters the unknown pool in the background."""

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

from openworld.discovery import Canceled, Cluster, PoolMap, PoolSpace, find_clusters, map_2d, split
from openworld.discovery.clusters import MIN_SIZE
from openworld.recognition.blas import one_blas_thread
from openworld.service.live_model import lower_priority
from openworld.service.validation import NotFound
from openworld.service.world import World
from openworld.store.records import ClusterDraft, PoolFilter

_PAGE = 10_000
_ENOUGH_NEW = 0.02  # share of the pool that triggers a run
_POLLS_PER_SECOND = 4
_RETENTION_SECONDS = 600.0  # between two searches for samples that are too old, when none arrive
_FINER = "finer"
_MAP = "map"
_log = structlog.get_logger("openworld.clustering")


Report = Callable[[str, Mapping[str, Any]], None]


@dataclass(frozen=True)
class JobState:
    """The progress of clustering, in samples; the last run took `seconds`."""

    running: bool
    done: int
    total: int
    seconds: float | None


class ClusteringJob:
    """A thread that clusters the pending samples when enough of them are new.

    It uses one thread of BLAS and stores its result at the end, so requests are not held up.
    On a shared database one server does it for all.

    Parameters
    ----------
    world : World
    pause : float
        Minimum seconds between two runs.
    report : callable
        Called with the progress, as ``report("clustering", {"done": 100, "total": 2000})``.
    """

    def __init__(self, world: World, pause: float, report: Report) -> None:
        self._world, self._pause, self._report = world, pause, report
        self._closing = threading.Event()
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None
        self._state = JobState(False, 0, 0, None)
        self._reported = 0.0

    def start(self) -> None:
        """Start the thread."""
        self._wanted.set()
        self._thread = threading.Thread(target=self._run, name="openworld-clustering", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Cancel the current run and stop."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def refresh(self) -> None:
        """Cluster as soon as possible, however little has changed."""
        self._wanted.set()

    @property
    def finer(self) -> int:
        """How many steps finer than the known classes the pool is clustered; negative for coarser."""
        value = self._world.replicas.shared(_FINER)
        return 0 if value is None else int(value)

    def set_finer(self, steps: int) -> None:
        """Cluster the pool again with another granularity, on all servers from now on."""
        self._world.replicas.share(_FINER, str(steps).encode())
        self.refresh()

    def parts(self, cluster_id: int) -> list[list[int]]:
        """Return the parts into which a cluster falls, the largest first."""
        ids = np.array(self._world.pool.ids(PoolFilter(cluster=cluster_id)), dtype=np.int64)
        if not len(ids):
            raise NotFound(f"There is no cluster {cluster_id}, or nothing is left in it.")
        with one_blas_thread():
            return [part.tolist() for part in split(self._vectors(ids, self._space()), ids)]

    @property
    def has_run(self) -> bool:
        """Whether the pool was ever clustered."""
        return self._world.replicas.shared(_MAP) is not None

    @property
    def state(self) -> JobState:
        """The progress."""
        return self._state

    def places(self) -> dict[int, tuple[float, float, int | None]]:
        """Return where the pending samples stood on the map at the last run, and their clusters now."""
        where = _read_map(self._world)
        if where is None:
            return {}
        ids, clusters = self._world.pool.pending()
        positions, here = where.find(ids)
        columns = zip(ids[here].tolist(), *positions[here].T.tolist(), clusters[here].tolist(), strict=True)
        return {sample: (x, y, None if cluster < 0 else cluster) for sample, x, y, cluster in columns}

    def _run(self) -> None:
        lower_priority()
        n_new, n_pool, ended, looked = 0, 0, -self._pause, monotonic()
        with self._world.notifications.subscribe() as subscription:
            while not self._closing.is_set():
                notification = subscription.get(1 / _POLLS_PER_SECOND)
                if notification is not None:
                    n_new += notification.data.get("samples", 0) if notification.kind == "unknown" else 0
                    n_new += notification.data.get("returned", 0) if notification.kind == "rescored" else 0
                    if (
                        notification.kind == "clusters" and not notification.here
                    ):  # another server has just clustered
                        n_new, n_pool, ended = 0, notification.data.get("samples", n_pool), monotonic()
                enough = n_new >= max(MIN_SIZE, _ENOUGH_NEW * n_pool)
                idle = monotonic() - max(ended, looked) > _RETENTION_SECONDS
                if not (enough or idle or self._wanted.is_set()) or monotonic() - ended < self._pause:
                    continue
                try:
                    if idle and not enough and not self._delete_old():
                        looked = monotonic()
                        continue
                    with self._world.replicas.lead("cluster") as is_leader:
                        if not is_leader:  # wait for the result of the leader, or for its end
                            continue
                        n_new = 0
                        self._wanted.clear()
                        n_pool = self.run_once()
                except Canceled:
                    return
                except Exception:  # the database may be unreachable for a while
                    _log.exception("The pool could not be clustered; trying again.")
                    self._wanted.set()
                ended = monotonic()

    def run_once(self) -> int:
        """Cluster the pool as it is, in this thread, and return how many samples it has."""
        started = monotonic()
        self._progress(0, 0)
        try:
            self._delete_old()
            ids, previous = self._pending()
            with one_blas_thread():
                space = self._space()
                vectors = self._vectors(ids, space)
                found = find_clusters(
                    vectors,
                    ids,
                    previous,
                    known=space.known,
                    finer=self.finer,
                    progress=lambda done, total: self._progress(done * len(ids) // total, len(ids)),
                    canceled=self._closing.is_set,
                )
                _write_map(self._world, map_2d(vectors, ids, found, _read_map(self._world)))
            self._world.clusters.replace(
                [
                    ClusterDraft(
                        _viewing_order(cluster),
                        int(cluster.medoid),
                        cluster.id if cluster.id in previous else None,
                        cluster.purity,
                        cluster.novelty,
                        cluster.loose,
                    )
                    for cluster in found.clusters
                ]
            )
        finally:
            seconds = monotonic() - started
            self._state = replace(self._state, running=False, seconds=seconds)
        self._report("clustering", {"done": len(ids), "total": len(ids)})
        _log.info("clustered", samples=len(ids), clusters=len(found.clusters), seconds=round(seconds, 3))
        return len(ids)

    def _delete_old(self) -> int:
        """Delete unknown samples that are too old or too many."""
        n = self._world.clusters.delete_old()
        if n:
            _log.info("deleted old unknown samples", samples=n)
        return n

    def _pending(self) -> tuple[NDArray[np.int64], dict[int, list[int]]]:
        """Return the pending samples, and the samples of each cluster."""
        ids, clusters = self._world.pool.pending()
        order = np.argsort(clusters, kind="stable")
        names, starts = np.unique(clusters[order], return_index=True)
        members = dict(zip(names.tolist(), np.split(ids[order], starts[1:]), strict=True)) if len(ids) else {}
        return ids, {name: group.tolist() for name, group in members.items() if name >= 0}

    def _space(self) -> PoolSpace:
        with self._world.model.reading() as (model, _):
            return PoolSpace.of(model)

    def _vectors(self, ids: NDArray[np.int64], space: PoolSpace) -> NDArray[np.floating[Any]]:
        """Return the samples in the space in which they are clustered."""
        pages = (ids[start : start + _PAGE].tolist() for start in range(0, len(ids), _PAGE))
        parts = [space.transform(self._world.pool.features(page)) for page in pages]
        return np.concatenate(parts) if parts else np.empty((0, 1), dtype=np.float32)

    def _progress(self, done: int, total: int) -> None:
        self._state = replace(self._state, running=True, done=done, total=total)
        now = monotonic()
        if total and now - self._reported >= 1 / _POLLS_PER_SECOND:
            self._reported = now
            self._report("clustering", {"done": done, "total": total})


def _viewing_order(cluster: Cluster) -> list[int]:
    """Return the members: first examples that show how different they are, doubtful ones last."""
    return list(dict.fromkeys([*cluster.examples.tolist(), *cluster.members.tolist()]))


def _read_map(world: World) -> PoolMap | None:
    data = world.replicas.shared(_MAP)
    if data is None:
        return None
    with np.load(BytesIO(data)) as arrays:
        return PoolMap(arrays["ids"], arrays["positions"])


def _write_map(world: World, where: PoolMap) -> None:
    file = BytesIO()
    np.savez(file, ids=where.ids, positions=where.positions)
    world.replicas.share(_MAP, file.getvalue())
