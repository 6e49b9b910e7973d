"""Clusters of the pool: setting them, holding them, and changing them by hand."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from openworld.service.changes import Changes
from openworld.service.results import Cluster, ClusterDraft, Conflict, NotFound, Outcome, Refused
from openworld.service.scribe import Act, Payload, Scribe
from openworld.service.validation import check_name
from openworld.store import clusters


class Clusters:
    """The clusters and who holds them."""

    def __init__(self, scribe: Scribe, changes: Changes, lease_seconds: float) -> None:
        self._scribe, self._database = scribe, scribe.database
        self._changes, self._lease_seconds = changes, lease_seconds

    def all(self) -> list[Cluster]:
        """List clusters, largest first."""
        with self._database.read() as connection:
            return clusters.cluster_list(connection)

    def one(self, cluster_id: int) -> Cluster:
        """Return a cluster, or raise."""
        with self._database.read() as connection:
            found = clusters.cluster(connection, cluster_id)
        if found is None:
            raise NotFound(f"There is no cluster {cluster_id}, or nothing is left in it.")
        return found

    def set(self, drafts: Sequence[ClusterDraft]) -> list[int]:
        """Replace the clusters that are in nobody's hands."""
        with self._scribe.acting(), self._database.write() as connection:
            ids = clusters.replace(connection, drafts)
        n_samples = sum(len(draft.members) for draft in drafts)
        self._changes.tell("clusters", {"clusters": len(ids), "samples": n_samples})
        return ids

    def lease(self, cluster_id: int, who: str) -> Cluster:
        """Hold a cluster."""
        who = check_name(who, "A person")
        with self._database.write() as connection:
            leased = clusters.lease(connection, cluster_id, who, self._lease_seconds)
        found = self.one(cluster_id)
        if not leased:
            raise Conflict(f"{found.holder or 'Someone else'} holds cluster {cluster_id}.")
        self._changes.tell("lease", {"cluster": cluster_id, "holder": who})
        return found

    def release(self, cluster_id: int, who: str) -> None:
        """Let go of a cluster."""
        with self._database.write() as connection:
            released = clusters.release(connection, cluster_id, who)
        if released:
            self._changes.tell("lease", {"cluster": cluster_id, "holder": None})

    def merge(self, cluster_ids: Sequence[int], who: str) -> Outcome:
        """Move the samples of clusters to the first of them."""
        with self._scribe.acting():
            into, *others = list(dict.fromkeys(cluster_ids))
            if not others:
                raise Refused("Give two clusters or more to merge.")
            for cluster_id in (into, *others):
                self._check_free(self.one(cluster_id), who)
            with self._database.read() as connection:
                moved = {str(other): clusters.members(connection, [other]) for other in others}

            def payload(connection: Connection) -> Payload:
                clusters.move(connection, [i for ids in moved.values() for i in ids], into)
                return {"into": into, "moved": moved}

            n_moved = sum(map(len, moved.values()))
            return self._scribe.write(Act(check_name(who, "A person"), "merge_clusters", payload, n_moved))

    def split(self, cluster_id: int, sample_ids: Sequence[int], who: str) -> Outcome:
        """Move samples of a cluster to a new one."""
        ids = list(dict.fromkeys(sample_ids))
        with self._scribe.acting():
            self._check_free(self.one(cluster_id), who)
            with self._database.read() as connection:
                members = set(clusters.members(connection, [cluster_id]))
            if not ids or not members.issuperset(ids) or len(ids) == len(members):
                raise Refused(f"Give some of the pending samples of cluster {cluster_id}, but not all.")

            def payload(connection: Connection) -> Payload:
                into = clusters.create(connection, ids[0], pinned=True)
                clusters.move(connection, ids, into)
                return {"into": into, "moved": {str(cluster_id): ids}}

            return self._scribe.write(Act(check_name(who, "A person"), "split_cluster", payload, len(ids)))

    def _check_free(self, cluster: Cluster, who: str) -> None:
        if cluster.holder not in (None, who):
            raise Conflict(f"{cluster.holder} holds cluster {cluster.id}.")
