"""What the workbench shows: a cluster, the samples in none, the finds of a search, or what looks alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from openworld.service.results import Cluster, PoolFilter, Sample
from openworld.service.schemas import Id
from openworld.service.world import World

PAGE = 120


@dataclass(frozen=True)
class Group:
    """Some samples of the pool, by one of: the cluster they are in, a text, a sample they look like.

    Without any of them: the samples that are in no cluster.
    """

    cluster: int | None = None
    text: str | None = None
    like: int | None = None

    @property
    def query(self) -> str:
        """The group as the query of an address."""
        values = {"cluster": self.cluster, "text": self.text, "like": self.like}
        return urlencode({name: value for name, value in values.items() if value is not None})

    @property
    def filter(self) -> PoolFilter:
        """The group as a filter of the pool."""
        if self.cluster is not None:
            return PoolFilter(cluster=self.cluster)
        if self.text is not None:
            return PoolFilter(text=self.text)
        return PoolFilter(clustered=False)

    def size(self, world: World) -> int:
        """Count the samples of a group that has more than a page of them."""
        return world.pool.count(self.filter)

    def page(self, world: World, after: str | None) -> tuple[Sequence[Sample], str | None]:
        """Return some samples and where the next ones start."""
        if self.like is not None:
            return self._alike(world), None
        found = world.pool.page(self.filter, after, PAGE)
        return found.samples, found.next

    def ids(self, world: World, most: int | None = None, without: Sequence[int] = ()) -> list[int]:
        """Return the ids of the samples in their order, without some."""
        strays = set(without)
        if self.like is not None:
            return [sample.id for sample in self._alike(world) if sample.id not in strays][:most]
        found = world.pool.ids(self.filter, None if most is None else most + len(strays))
        return [i for i in found if i not in strays][:most]

    def _alike(self, world: World) -> list[Sample]:
        assert self.like is not None
        itself = world.pool.get(self.like)
        others = [sample for sample, _ in world.pool.similar(self.like, PAGE - 1)]
        return [itself, *others] if itself.state == "pending" else others


def group_of(cluster: Id | None = None, text: str | None = None, like: Id | None = None) -> Group:
    """Return the group of an address."""
    return Group(cluster, text or None, like)


def after(clusters: Sequence[Cluster], cluster_id: int, who: str | None) -> Cluster | None:
    """Return the next cluster that nobody else holds: the list goes round, and ends at its beginning."""
    places = {cluster.id: place for place, cluster in enumerate(clusters)}
    start = places.get(cluster_id, -1) + 1
    for cluster in (*clusters[start:], *clusters[:start]):
        if cluster.id != cluster_id and cluster.holder in (None, who):
            return cluster
    return None
