"""The unknown pool: listing and reading stored samples; listing, leasing, merging and splitting clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

import numpy as np
from sqlalchemy import Connection

from openworld.service.event_log import EventLog
from openworld.service.events import MergeClustersEvent, SplitClusterEvent
from openworld.service.notifications import Notifications
from openworld.service.replay import never_learned
from openworld.service.settings import WorldSettings
from openworld.service.validation import Conflict, NotFound, Refused, check_name
from openworld.service.world_event import EventOutcome
from openworld.store import Database, clusters, samples
from openworld.store import pool as stored
from openworld.store.pool import Ids
from openworld.store.records import ClusterDraft, PoolCluster, PoolFilter, Sample
from openworld.store.samples import Features

_SIMILAR_BATCH = 5000
_PENDING = PoolFilter()
Order = Literal["gain", "uncertain", "different"]

# As `discovery.look_first`; a cluster that a person made is taken to be pure and new.
_KEYS: dict[Order, Callable[[PoolCluster], float]] = {
    "gain": lambda cluster: -cluster.size * (1.0 if cluster.purity is None else cluster.purity),
    "uncertain": lambda cluster: 1.0 if cluster.purity is None else cluster.purity,
    "different": lambda cluster: -(1.0 if cluster.novelty is None else cluster.novelty),
}


@dataclass(frozen=True)
class PoolPage:
    """Some rows and, where there are more, the cursor to give as `after` for the next ones."""

    samples: list[Sample]
    next: str | None


class UnknownPool:
    """The stored samples."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(self, where: PoolFilter = _PENDING, after: str | None = None, limit: int = 100) -> PoolPage:
        """List samples; give the `next` of a page as `after` to continue."""
        try:
            with self._database.read() as connection:
                return PoolPage(*stored.page(connection, where, after, limit))
        except stored.BadCursor:
            raise Refused(f"{after!r} is not a cursor of this list: start again without a cursor.") from None

    def ids(self, where: PoolFilter = _PENDING, limit: int | None = None) -> list[int]:
        """List the ids of samples, in the order of `page`."""
        with self._database.read() as connection:
            return stored.ids(connection, where, limit)

    def count(self, where: PoolFilter = _PENDING) -> int:
        """Count samples."""
        with self._database.read() as connection:
            return stored.count(connection, where)

    def get(self, sample_id: int) -> Sample:
        """Return one sample, or raise `NotFound`."""
        with self._database.read() as connection:
            found = samples.find(connection, [sample_id])
        if not found:
            raise NotFound(f"There is no sample {sample_id}.")
        return found[sample_id]

    def some(self, sample_ids: Sequence[int]) -> list[Sample]:
        """Return the samples that exist among these ids."""
        with self._database.read() as connection:
            return list(samples.find(connection, sample_ids).values())

    def thumbnail(self, sample_id: int) -> bytes:
        """Return the small picture of a sample, or raise `NotFound`."""
        return self._picture(sample_id, large=False)

    def preview(self, sample_id: int) -> bytes:
        """Return the largest picture of a sample that is stored, or raise `NotFound`."""
        return self._picture(sample_id, large=True)

    def _picture(self, sample_id: int, *, large: bool) -> bytes:
        with self._database.read() as connection:
            picture = samples.picture_of(connection, sample_id, large=large)
        if picture is None:
            raise NotFound(f"Sample {sample_id} has no picture.")
        return picture

    def features(self, sample_ids: Sequence[int]) -> Features:
        """Return the features of samples, shape (n, D), in the order given."""
        with self._database.read() as connection:
            try:
                return samples.features_of(connection, sample_ids)
            except KeyError as error:
                raise NotFound(f"There is no sample {error.args[0]}.") from None

    def pending(self) -> tuple[Ids, Ids]:
        """Return the ids of all pending samples, ascending, and their clusters, -1 for none."""
        with self._database.read() as connection:
            return stored.pending(connection)

    def similar(self, sample_id: int, n: int = 20) -> list[tuple[Sample, float]]:
        """Return the pending samples nearest to one, nearest first, with distances in feature space."""
        wanted = self.features([sample_id])[0].astype(np.float64)
        ids, squares = np.empty(0, dtype=np.int64), np.empty(0)
        with self._database.read() as connection:
            for some, features in stored.pending_features(connection, _SIMILAR_BATCH):
                apart = features - wanted
                ids = np.concatenate([ids, some])
                squares = np.concatenate([squares, np.einsum("ij,ij->i", apart, apart)])
                squares[ids == sample_id] = np.inf
                near = np.argsort(squares, kind="stable")[:n]  # of equals, the one that was stored first
                ids, squares = ids[near], squares[near]
            found = samples.find(connection, ids.tolist())
        pairs = zip(ids.tolist(), np.sqrt(squares).tolist(), strict=True)
        return [(found[i], distance) for i, distance in pairs if i != sample_id]

    def labeled(self) -> Iterator[tuple[Sample, Features]]:
        """Yield every labeled sample with its feature."""
        with self._database.read() as connection:
            yield from stored.labeled(connection)


# -- clusters -------------------------------------------------------------------------------------


class Clusters:
    """The clusters and their leases."""

    def __init__(self, log: EventLog, notifications: Notifications, settings: WorldSettings) -> None:
        self._log, self._database = log, log.database
        self._notifications, self._settings = notifications, settings

    def all(self, order: Order = "gain") -> list[PoolCluster]:
        """List the clusters that have pending samples, in the order to look at them."""
        with self._database.read() as connection:
            found = clusters.cluster_list(connection)
        return sorted(found, key=lambda cluster: (_KEYS[order](cluster), cluster.id))

    def get(self, cluster_id: int) -> PoolCluster:
        """Return one cluster, or raise `NotFound`."""
        with self._database.read() as connection:
            found = clusters.cluster(connection, cluster_id)
        if found is None:
            raise NotFound(f"There is no cluster {cluster_id}, or nothing is left in it.")
        return found

    def replace(self, drafts: Sequence[ClusterDraft]) -> list[int]:
        """Replace the clusters by those of the clustering job, and return their ids.

        Clusters that a person holds, merged or split stay as they are, and so do their samples.
        """
        with self._log.exclusive(), self._database.write() as connection:
            ids = clusters.replace(connection, drafts)
        n_samples = sum(len(draft.members) for draft in drafts)
        self._notifications.publish("clusters", {"clusters": len(ids), "samples": n_samples})
        return ids

    def delete_old(self) -> int:
        """Delete unknown samples that are too old or too many, by the settings; return how many."""
        most, days = self._settings.max_unknown, self._settings.unknown_days
        if most is None and days is None:
            return 0
        before = None if days is None else datetime.now(UTC) - timedelta(days=days)
        with self._log.exclusive(), self._database.write() as connection:
            old = never_learned(connection, samples.old_unknown(connection, most, before))
            samples.delete_samples(connection, old)
        return len(old)

    def lease(self, cluster_id: int, who: str) -> PoolCluster:
        """Hold a cluster, or hold it longer; raise `Conflict` where another person holds it."""
        who = check_name(who, "A person")
        with self._database.write() as connection:
            leased = clusters.lease(connection, cluster_id, who, self._settings.lease_seconds)
        found = self.get(cluster_id)
        if not leased:
            raise Conflict(f"{found.holder or 'Someone else'} holds cluster {cluster_id}.")
        self._notifications.publish("lease", {"cluster": cluster_id, "holder": who})
        return found

    def release(self, cluster_id: int, who: str) -> None:
        """End a lease; does nothing where the person does not hold the cluster."""
        with self._database.write() as connection:
            released = clusters.release(connection, cluster_id, who)
        if released:
            self._notifications.publish("lease", {"cluster": cluster_id, "holder": None})

    def merge(self, cluster_ids: Sequence[int], who: str) -> EventOutcome:
        """Move the samples of several clusters to the first of them."""
        with self._log.exclusive():
            into, *others = list(dict.fromkeys(cluster_ids))
            if not others:
                raise Refused("Give two clusters or more to merge.")
            for cluster_id in (into, *others):
                self._check_free(cluster_id, who)
            with self._database.read() as connection:
                moved = {str(other): clusters.members(connection, [other]) for other in others}
            return self._log.append(MergeClustersEvent(into, moved), who)

    def split(self, cluster_id: int, sample_ids: Sequence[int], who: str) -> EventOutcome:
        """Move samples of a cluster to a new one; its id is in the event's payload, as `into`."""
        ids = list(dict.fromkeys(sample_ids))
        with self._log.exclusive():
            self._check_free(cluster_id, who)
            with self._database.read() as connection:
                members = set(clusters.members(connection, [cluster_id]))
            if not ids or not members.issuperset(ids) or len(ids) == len(members):
                raise Refused(f"Give some of the pending samples of cluster {cluster_id}, but not all.")

            event = SplitClusterEvent(0, {str(cluster_id): ids})

            def create(connection: Connection) -> SplitClusterEvent:
                return replace(event, into=clusters.create(connection, ids[0], pinned=True))

            return self._log.append(event, who, complete=create)

    def _check_free(self, cluster_id: int, who: str) -> None:
        holder = self.get(cluster_id).holder
        if holder not in (None, who):
            raise Conflict(f"{holder} holds cluster {cluster_id}.")
