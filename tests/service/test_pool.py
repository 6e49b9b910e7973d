"""Looking at the pool as a whole: which samples pend, in which clusters, and which are alike."""

from __future__ import annotations

from collections.abc import Callable
from time import sleep
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from openworld.service.settings import WorldSettings
from openworld.service.validation import NotFound
from openworld.service.world import World
from openworld.store.records import ClusterDraft, PoolFilter, SampleContent

Draw = Callable[..., NDArray[np.float32]]


def _unknown(world: World, X: NDArray[Any]) -> list[int]:
    """Put unknown samples into the pool."""
    ids = [i for i in world.recognize(X).sample_ids if i is not None]
    assert len(ids) == len(X)
    return ids


def test_the_pending_samples_and_their_clusters_are_those_of_the_pool(world: World, things: Draw) -> None:
    assert [len(column) for column in world.pool.pending()] == [0, 0]
    ids = _unknown(world, np.vstack([things(5, 4), things(6, 5), things(7, 2)]))
    one, other = world.clusters.replace(
        [ClusterDraft(ids[1:4][::-1], ids[1]), ClusterDraft(ids[5:9], ids[5])]
    )
    world.labels.dismiss([*ids[5:7], ids[10]], "blurred", "ann")
    pending, clusters = world.pool.pending()
    found = {s.id: -1 if s.cluster_id is None else s.cluster_id for s in world.pool.page(limit=50).samples}
    assert dict(zip(pending.tolist(), clusters.tolist(), strict=True)) == found
    assert sorted(found.values()) == sorted([-1] * 3 + [one] * 3 + [other] * 2)
    assert pending.tolist() == sorted(found)
    assert world.pool.ids() == pending.tolist()
    assert world.pool.ids(PoolFilter(cluster=one)) == ids[1:4][::-1]
    assert world.pool.ids(PoolFilter(newest_first=True), 2) == pending.tolist()[::-1][:2]


def test_similar_samples_are_those_that_brute_force_finds(
    world: World, things: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openworld.service.pool._SIMILAR_BATCH", 7)
    X = np.vstack([things(kind, 5, 3) for kind in range(5, 9)])
    ids = _unknown(world, X)
    ids += _unknown(world, X[:3].astype(np.float64) + 1e-9)  # all but the same, and of another type
    world.labels.dismiss(ids[2:4], "", "ann")
    every = world.pool.features(ids).astype(np.float64)
    for wanted, n in ((0, 5), (2, 30), (10, 1), (22, 500)):
        pending = [i for i in range(len(ids)) if i not in (2, 3, wanted)]
        distances = np.sqrt(((every[pending] - every[wanted]) ** 2).sum(axis=1))
        order = np.lexsort((pending, distances))[:n]
        found = world.pool.similar(ids[wanted], n)
        assert [sample.id for sample, _ in found] == [ids[pending[i]] for i in order]
        np.testing.assert_allclose([distance for _, distance in found], distances[order], rtol=1e-12)
    with pytest.raises(NotFound):
        world.pool.similar(10**6, 3)


def test_previews_are_bounded_and_the_thumbnail_takes_their_place(url: str, models: Any, things: Any) -> None:
    settings = WorldSettings(max_previews=3)
    with World.open(url, models("nno"), settings) as world:
        ids = []
        for seed in range(4):
            item = SampleContent("image", thumbnail=b"small", preview=b"large")
            (sample_id,) = world.recognize(things(5, 1, seed), [item]).sample_ids
            ids.append(sample_id)
        assert [world.pool.preview(i) for i in ids] == [b"small"] + [b"large"] * 3
        assert [world.pool.thumbnail(i) for i in ids] == [b"small"] * 4


def test_unknown_samples_are_all_kept_by_default(world: World, things: Draw) -> None:
    ids = _unknown(world, things(5, 30))
    assert world.clusters.delete_old() == 0
    assert world.pool.ids() == ids


def test_too_many_or_too_old_unknown_samples_are_deleted(url: str, models: Any, things: Draw) -> None:
    with World.open(url, models("nno"), WorldSettings(max_unknown=10)) as world:
        ids = _unknown(world, things(5, 30))
        assert world.clusters.delete_old() == 20
        assert world.pool.ids() == ids[20:]
    with World.open(url, settings=WorldSettings(unknown_days=1e-9)) as world:
        sleep(0.001)  # longer than the age allowed
        assert world.clusters.delete_old() == 10
        assert world.pool.ids() == []
        assert world.clusters.delete_old() == 0


def test_what_events_learned_or_people_look_at_is_never_deleted(url: str, models: Any, things: Draw) -> None:
    with World.open(url, models("nno"), WorldSettings(max_unknown=1, lease_seconds=600)) as world:
        named, undone, forgotten, rest = (_unknown(world, things(kind, 4)) for kind in (5, 6, 7, 8))
        world.labels.label(named, "five", "ann")
        world.labels.label(undone, "six", "ann")
        world.history.undo("ann")
        world.labels.label(forgotten, "seven", "ann")
        world.classes.forget("seven", "ann")
        (cluster,) = world.clusters.replace([ClusterDraft(rest[:2], rest[0])])
        world.clusters.lease(cluster, "bob")
        world.clusters.delete_old()
        assert set(world.pool.ids()) == {*undone, *forgotten, *rest[:2], rest[-1]}
        assert world.pool.ids(PoolFilter(state="labeled")) == named
        redone = world.history.undo("ann")  # the class is known again
        assert redone.added == ("seven",)
