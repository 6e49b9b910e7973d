"""Clusters: stable ids, and one holder at a time."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy.event import listen

from openworld.store import Database, clusters, labels, pool, samples
from openworld.store.records import ClusterDraft, PoolFilter, SampleContent
from openworld.store.samples import NewSample, Verdict


@pytest.fixture
def ids(database: Database) -> list[int]:
    verdict = Verdict(None, -0.5, 0.25, (), 0)
    with database.write() as connection:
        return samples.store(
            database,
            connection,
            [NewSample(np.array([float(i)]), SampleContent(), verdict, "pending") for i in range(8)],
        )


def _replace(database: Database, *drafts: ClusterDraft) -> list[int]:
    with database.write() as connection:
        return clusters.replace(connection, drafts)


def _members(database: Database, cluster_id: int) -> list[int]:
    with database.read() as connection:
        found, _ = pool.page(connection, PoolFilter(cluster=cluster_id), None, 100)
    return [sample.id for sample in found]


def test_members_come_in_the_order_of_the_draft_and_ids_are_kept(database: Database, ids: list[int]) -> None:
    a, b = _replace(database, ClusterDraft(ids[2::-1], ids[2]), ClusterDraft(ids[3:5], ids[3]))
    assert _members(database, a) == ids[2::-1]
    again, new = _replace(database, ClusterDraft(ids[3:6], ids[4], b), ClusterDraft(ids[:1], ids[0]))
    assert again == b
    assert new not in (a, b)
    assert _members(database, b) == ids[3:6]
    with database.read() as connection:
        assert [(c.id, c.size, c.medoid) for c in clusters.cluster_list(connection)] == [
            (b, 3, ids[4]),
            (new, 1, ids[0]),
        ]
        assert clusters.cluster(connection, a) is None  # nothing is left in it


def test_pages_of_a_cluster_continue_where_they_ended(database: Database, ids: list[int]) -> None:
    (a,) = _replace(database, ClusterDraft(ids[::-1], ids[0]))
    seen, cursor = [], None
    while True:
        with database.read() as connection:
            found, cursor = pool.page(connection, PoolFilter(cluster=a), cursor, 3)
        seen += [sample.id for sample in found]
        if cursor is None:
            break
    assert seen == ids[::-1]


def test_a_held_cluster_and_one_made_by_hand_are_left_alone(database: Database, ids: list[int]) -> None:
    held, pinned, free = _replace(database, *(ClusterDraft(ids[i : i + 2], ids[i]) for i in (0, 2, 4)))
    with database.write() as connection:
        assert clusters.lease(connection, held, "ann", 60)
        clusters.move(connection, ids[6:7], pinned)
    _replace(database, ClusterDraft(ids, ids[0], free))
    assert _members(database, held) == ids[:2]
    assert set(_members(database, pinned)) == {*ids[2:4], ids[6]}
    assert _members(database, free) == [ids[4], ids[5], ids[7]]


def test_one_person_holds_a_cluster_until_the_lease_ends(database: Database, ids: list[int]) -> None:
    (a,) = _replace(database, ClusterDraft(ids, ids[0]))
    with database.write() as connection:
        assert clusters.lease(connection, a, "ann", 60)
        assert not clusters.lease(connection, a, "bob", 60)
        assert clusters.held_by_others(connection, ids[:1], "bob") == "ann"
        assert clusters.held_by_others(connection, ids[:1], "ann") is None
        assert not clusters.release(connection, a, "bob")
        assert clusters.lease(connection, a, "ann", -1)  # over already
        assert clusters.held_by_others(connection, ids[:1], "bob") is None
        assert clusters.lease(connection, a, "bob", 60)
        assert clusters.release(connection, a, "bob")
        assert clusters.cluster_list(connection)[0].holder is None


def test_of_many_who_ask_at_once_one_gets_the_cluster(database: Database, ids: list[int]) -> None:
    (a,) = _replace(database, ClusterDraft(ids, ids[0]))
    got: list[str] = []

    def ask(who: str) -> None:
        with database.write() as connection:
            if clusters.lease(connection, a, who, 60):
                got.append(who)

    threads = [threading.Thread(target=ask, args=(f"person {i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1


def test_moving_back_restores_the_clusters(database: Database, ids: list[int]) -> None:
    a, b = _replace(database, ClusterDraft(ids[:3], ids[0]), ClusterDraft(ids[3:6], ids[3]))
    with database.write() as connection:
        clusters.move(connection, ids[3:6], a)
    assert set(_members(database, a)) == set(ids[:6])
    with database.write() as connection:
        clusters.move_back(connection, {str(b): ids[3:6]}, a)
    assert (_members(database, a), _members(database, b)) == (ids[:3], ids[3:6])


def test_what_pages_count_is_counted_in_an_index(tmp_path: Path) -> None:
    database, statements = Database(f"sqlite:///{tmp_path / 'world.db'}"), []
    listen(database.engine, "before_cursor_execute", lambda *event: statements.append(event[2:4]))
    with database.read() as connection:
        clusters.cluster_list(connection)
        clusters.cluster(connection, 1)
        pool.count(connection, PoolFilter(clustered=False))
        labels.count_states(connection)
        labels.count_states(connection, "ann")
        counting = [(text, values) for text, values in statements if "count(" in text]
        for text, values in counting:
            plan = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)]
            used = [step for step in plan if "samples" in step and step.startswith(("SEARCH", "SCAN"))]
            assert used, plan
            assert all("COVERING INDEX" in step for step in used), plan
    database.close()
    assert len(counting) == 5
