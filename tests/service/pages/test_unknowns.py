"""The list of clusters."""

from __future__ import annotations

from openworld.service.pages.unknowns import next_free
from openworld.store.records import PoolCluster


def test_the_next_cluster_is_one_that_nobody_else_holds() -> None:
    def cluster(number: int, holder: str | None = None) -> PoolCluster:
        return PoolCluster(number, 0, 1, False, holder, None)

    clusters = [cluster(1), cluster(2, "Ann"), cluster(3, "Bob"), cluster(4)]
    assert [found and found.id for i in (1, 2, 3, 4, 0) if (found := next_free(clusters, i, "Bob"))] == [
        3,
        3,
        4,
        1,
        1,
    ]
    assert next_free(clusters[1:2], 7, "Bob") is None
    assert next_free([cluster(5)], 5, "Bob") is None
