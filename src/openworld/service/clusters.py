"""Clusters of the unknown pool: listing, leasing, merging and splitting them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from sqlalchemy import Connection

from openworld.service.event_log import EventLog
from openworld.service.events import MergeClustersEvent, SplitClusterEvent
from openworld.service.notifications import Notifications
from openworld.service.results import Cluster, ClusterDraft, Conflict, NotFound, Outcome, Refused
from openworld.service.validation import check_name
from openworld.store import clusters

Order = Literal["gain", "uncertain", "different"]

# As `discovery.look_first`; a cluster that a person made is taken to be pure and new.
_KEYS: dict[Order, Callable[[Cluster], float]] = {
    "gain": lambda cluster: -cluster.size * (1.0 if cluster.purity is None else cluster.purity),
    "uncertain": lambda cluster: 1.0 if cluster.purity is None else cluster.purity,
    "different": lambda cluster: -(1.0 if cluster.novelty is None else cluster.novelty),
}


class Clusters:
    """The clusters and their leases."""

    def __init__(self, log: EventLog, notifications: Notifications, lease_seconds: float) -> None:
        self._log, self._database = log, log.database
        self._notifications, self._lease_seconds = notifications, lease_seconds

    def all(self, order: Order = "gain") -> list[Cluster]:
        """List the clusters that have pending samples, in the order to look at them."""
        with self._database.read() as connection:
            found = clusters.cluster_list(connection)
        return sorted(found, key=lambda cluster: (_KEYS[order](cluster), cluster.id))

    def get(self, cluster_id: int) -> Cluster:
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

    def lease(self, cluster_id: int, who: str) -> Cluster:
        """Hold a cluster, or hold it longer; raise `Conflict` where another person holds it."""
        who = check_name(who, "A person")
        with self._database.write() as connection:
            leased = clusters.lease(connection, cluster_id, who, self._lease_seconds)
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

    def merge(self, cluster_ids: Sequence[int], who: str) -> Outcome:
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

    def split(self, cluster_id: int, sample_ids: Sequence[int], who: str) -> Outcome:
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
