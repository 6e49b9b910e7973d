from __future__ import annotations

import threading
from collections.abc import Iterator
from time import monotonic, sleep

import numpy as np
import pytest

from openworld import discovery
from openworld.discovery import Canceled, PoolSpace
from openworld.service import clustering_job
from openworld.service.clustering_job import ClusteringJob
from openworld.service.world import World


@pytest.fixture
def world(tmp_path, models) -> Iterator[World]:
    with World.open(f"sqlite:///{tmp_path / 'world.db'}", models("nno")) as found:
        yield found


def _fill(world: World, things, n: int = 20, seed: int = 0) -> dict[int, list[int]]:
    """Put three unknown things into the pool, and return their samples."""
    return {kind: list(world.recognize(things(kind, n, seed)).sample_ids) for kind in (5, 6, 7)}


def test_clusters_are_the_things_and_keep_their_ids(world, things):
    notified = []
    job = ClusteringJob(world, 0.0, lambda kind, data: notified.append((kind, data)))
    groups = _fill(world, things)
    assert job.run_once() == 60
    assert (job.state.done, job.state.total) == (60, 60)
    clusters = {cluster.id: set(job._pending()[1][cluster.id]) for cluster in world.clusters.all()}
    assert sorted(map(sorted, clusters.values())) == sorted(groups.values())
    assert notified[-1] == ("clustering", {"done": 60, "total": 60})
    more = _fill(world, things, 5, seed=1)
    world.labels.label(groups[7] + more[7], "seven", "ann")
    job.run_once()
    again = {cluster.id: set(job._pending()[1][cluster.id]) for cluster in world.clusters.all()}
    for kind in (5, 6):
        (number,) = [i for i, members in clusters.items() if groups[kind][0] in members]
        assert again[number] == {*groups[kind], *more[kind]}
    assert len(again) == 2


def test_the_map_shows_what_is_pending(world, things):
    job = ClusteringJob(world, 0.0, lambda *_: None)
    assert job.places() == {}
    groups = _fill(world, things)
    job.run_once()
    world.labels.dismiss(groups[5][:2], "", "ann")
    places = job.places()
    assert sorted(places) == sorted(i for ids in groups.values() for i in ids)[2:]
    middles = {kind: np.mean([places[i][:2] for i in groups[kind][2:]], axis=0) for kind in groups}
    spreads = [np.std([places[i][:2] for i in groups[kind][2:]]) for kind in groups]
    assert np.linalg.norm(middles[5] - middles[6]) > max(spreads)
    assert len({places[i][2] for i in groups[6]}) == 1


def test_samples_are_clustered_in_the_metric_space_of_the_model(world, things, models):
    X = things(5, 3)
    ids = np.array(world.recognize(X).sample_ids)
    found = ClusteringJob(world, 0.0, lambda *_: None)._vectors(ids, PoolSpace.of(models("nno")))
    np.testing.assert_array_equal(found, models("nno").metric_.transform(X))


def test_estimates_are_stored_and_the_granularity_is_used(world, things, monkeypatch):
    job = ClusteringJob(world, 0.0, lambda *_: None)
    _fill(world, things)
    job.run_once()
    assert all(0 < cluster.purity < 1 for cluster in world.clusters.all() if cluster.purity is not None)
    assert {cluster.loose for cluster in world.clusters.all()} == {False}
    job.set_finer(-8)
    assert job.finer == -8
    asked = []

    def find_clusters(*arguments, finer, **options):
        asked.append(finer)
        return discovery.find_clusters(*arguments, finer=finer, **options)

    monkeypatch.setattr(clustering_job, "find_clusters", find_clusters)
    job.run_once()
    assert asked == [-8]


def test_an_empty_pool(world):
    job = ClusteringJob(world, 0.0, lambda *_: None)
    assert job.run_once() == 0
    assert (job.places(), world.clusters.all()) == ({}, [])


def test_it_runs_by_itself_when_enough_is_new(world, things):
    job = ClusteringJob(world, 0.0, lambda *_: None)
    job.start()
    try:
        _fill(world, things)
        until = monotonic() + 300
        while len(world.clusters.all()) != 3 and monotonic() < until:
            sleep(0.02)
        assert len(world.clusters.all()) == 3
    finally:
        job.close()


def test_closing_gives_up_what_is_under_way(world, things, monkeypatch):
    begun = threading.Event()

    def endless(*_, canceled, **__):
        begun.set()
        while not canceled():
            sleep(0.01)
        raise Canceled

    monkeypatch.setattr(clustering_job, "find_clusters", endless)
    _fill(world, things)
    job = ClusteringJob(world, 0.0, lambda *_: None)
    job.start()
    assert begun.wait(300)
    job.close()
    assert not job.state.running
    assert world.clusters.all() == []


def test_an_error_is_tried_again(world, things, monkeypatch):
    calls = []
    real = clustering_job.find_clusters

    def flaky(*args, **kwargs):
        calls.append(1)
        if len(calls) == 1:
            raise OSError("the database is away")
        return real(*args, **kwargs)

    monkeypatch.setattr(clustering_job, "find_clusters", flaky)
    _fill(world, things)
    job = ClusteringJob(world, 0.0, lambda *_: None)
    job.start()
    until = monotonic() + 300
    while not world.clusters.all() and monotonic() < until:
        sleep(0.02)
    job.close()
    assert len(world.clusters.all()) == 3
