"""Several servers on one PostgreSQL: what one learns all know, and whichever dies, nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sqlalchemy import text

from openworld.service.auth import session_secret
from openworld.service.notifications import Notification
from openworld.service.settings import load_settings
from openworld.service.validation import Conflict
from openworld.service.world import World
from openworld.store.notify import NotifyChannel
from openworld.store.records import ClusterDraft

Draw = Callable[..., NDArray[np.float32]]
PATIENCE = 30.0


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


@pytest.fixture
def worlds(url: str, models: Callable[[str], Any]) -> Iterator[list[World]]:
    """Three servers' worlds on one database."""
    with ExitStack() as stack:
        first = stack.enter_context(World.open(url, models("0.1")))
        yield [first, *(stack.enter_context(World.open(url)) for _ in range(2))]


def wait_for(condition: Callable[[], bool]) -> None:
    end = monotonic() + PATIENCE
    while not condition():
        assert monotonic() < end, "it did not happen"
        sleep(0.01)


@contextmanager
def hearing(world: World) -> Iterator[Callable[[str], Notification]]:
    with world.notifications.subscribe() as subscription:

        def next_of(kind: str) -> Notification:
            while True:
                change = subscription.get(PATIENCE)
                assert change is not None, f"nothing was heard of {kind}"
                if change.kind == kind:
                    return change

        yield next_of


@pytest.mark.parametrize("notified", [True, False])
def test_what_one_learns_all_know(
    worlds: list[World], things: Draw, state_of: Any, notified: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By messages, and also where none arrives."""
    if not notified:
        monkeypatch.setattr(NotifyChannel, "send", lambda self, message: None)
    first, second, third = worlds
    with hearing(second) as heard:
        outcome = first.labels.learn(things(5, 8), ["teapot"] * 8, "ann")
        change = heard("event")
    assert not change.here
    assert change.data == {
        "event": outcome.event_id,
        "kind": "learn",
        "who": "ann",
        "version": 1,
        "samples": 8,
        "added": ["teapot"],
        "removed": [],
    }
    for world in worlds:
        wait_for(lambda world=world: world.model.version == 1)
        assert world.recognize(things(5, 2, 3), remember=False).labels == ["teapot"] * 2
    second.classes.rename("teapot", "kettle", "bob")
    third.labels.learn(things(6, 8), ["cup"] * 8, "cid")
    first.history.undo("bob")
    for world in worlds:
        wait_for(lambda world=world: world.model.version == 4)
    models = [world.model._front.model for world in worlds]
    assert state_of(models[0]) == state_of(models[1]) == state_of(models[2])
    assert [info.label for info in third.classes.all()] == ["a", "b", "c", "cup", "teapot"]


def test_what_one_rejects_all_see(worlds: list[World], things: Draw) -> None:
    first, second, _ = worlds
    with hearing(second) as heard:
        ids = first.recognize(things(5, 3)).sample_ids
        assert heard("unknown").data == {"samples": 3}
        first.clusters.replace([ClusterDraft([i for i in ids if i is not None], ids[0] or 0)])
        assert heard("clusters").data == {"clusters": 1, "samples": 3}
        cluster = second.clusters.all()[0].id
        first.clusters.lease(cluster, "ann")
        assert heard("lease").data == {"cluster": cluster, "holder": "ann"}
        with pytest.raises(Conflict, match="ann holds"):
            second.clusters.lease(cluster, "bob")
        with pytest.raises(Conflict, match="ann is working"):
            second.labels.label_cluster(cluster, "x", "bob")


def test_the_pool_is_judged_by_one_for_all(worlds: list[World], things: Draw) -> None:
    for world in worlds:
        assert world.rescorer.wait(timeout=PATIENCE) is not None
    ids = [i for i in worlds[1].recognize(things(5, 20)).sample_ids if i is not None]
    outcome = worlds[0].labels.label(ids[:10], "teapot", "ann")
    reports = [world.rescorer.wait(outcome.model_version, PATIENCE) for world in worlds]
    assert reports[0] is not None
    assert reports[0].recognized == 10
    assert reports[1:] == reports[:1] * 2  # the same scan, and not one each that finds nothing left
    assert {worlds[2].pool.get(i).state for i in ids[10:]} == {"recognized"}


def test_a_sample_judged_by_an_old_version_is_judged_again(
    worlds: list[World], things: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that came to a server after another had judged the pool by a version the first did not know of."""
    first, second, _ = worlds
    release, follow = threading.Event(), second.event_log.follow
    monkeypatch.setattr(second.event_log, "follow", lambda: release.wait() and follow())
    outcome = first.labels.learn(things(5, 10), ["teapot"] * 10, "ann")
    assert first.rescorer.wait(outcome.model_version, PATIENCE) is not None
    (late,) = second.recognize(things(5, 1, 4)).sample_ids
    assert late is not None
    assert second.pool.get(late).state == "pending"
    release.set()
    wait_for(lambda: second.model.version == outcome.model_version)
    wait_for(lambda: second.pool.get(late).state == "recognized")


def test_events_that_undo_each_other_are_followed_too(
    worlds: list[World], things: Draw, state_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read together they change no model, but they made versions that the next event has to count from."""
    first, second, _ = worlds
    follow = second.event_log.follow
    monkeypatch.setattr(second.event_log, "follow", lambda: None)
    for _ in range(2):
        first.labels.learn(things(5, 3), ["teapot"] * 3, "ann")
        first.history.undo("ann")
    follow()
    assert second.model.version == first.model.version == 4
    assert second.rescorer.wait(4, PATIENCE) is not None
    assert second.labels.learn(things(6, 3), ["cup"] * 3, "bob").model_version == 5
    first.event_log.follow()
    models = [world.model._front.model for world in (first, second)]
    assert state_of(models[0]) == state_of(models[1])


def test_the_history_names_what_was_undone_before_the_log_has_followed(
    worlds: list[World], things: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, _ = worlds
    monkeypatch.setattr(second.event_log, "follow", lambda: None)
    first.labels.learn(things(6, 3), ["cup"] * 3, "ann")
    first.history.undo("ann")
    first.history.redo("ann")
    assert second.event_log.headers == []
    originals = second.history.originals(second.history.events())
    assert {event_id: event.kind for event_id, event in originals.items()} == {2: "learn", 3: "learn"}


def test_a_server_that_waits_to_append_still_follows(worlds: list[World], things: Draw) -> None:
    """Another server may hold the lock for long: meanwhile requests here are answered by the newest model."""
    first, second, _ = worlds
    waiting = threading.Thread(target=first.labels.learn, args=(things(6, 3), ["cup"] * 3, "bob"))
    with second.event_log.exclusive():
        waiting.start()
        wait_for(lambda: _n_waiting(first) == 1)
        second.labels.learn(things(5, 3), ["teapot"] * 3, "ann")
        wait_for(lambda: first.model.version == 1)
    waiting.join(PATIENCE)
    assert first.model.version == 2


def _n_waiting(world: World) -> int:
    """Return how many connections wait for an advisory lock."""
    query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with world.event_log.database.read() as connection:
        return int(connection.execute(text(query)).scalar_one())


def test_all_append_at_once_one_after_the_other(worlds: list[World], things: Draw, state_of: Any) -> None:
    outcomes: list[Any] = []
    ids = [i for i in worlds[0].recognize(things(11, 30)).sample_ids if i is not None]
    conflicts: list[str] = []

    def append(i: int) -> None:
        for j in range(6):
            outcomes.append(worlds[i].labels.learn(things(3 + i, 3, j), [f"k{i}"] * 3, f"p{i}"))
            try:  # the same samples, under a name of one's own
                outcomes.append(worlds[i].labels.label(ids[j * 5 : j * 5 + 5], f"mine{i}", f"p{i}"))
            except Conflict as error:
                conflicts.append(str(error))

    threads = [threading.Thread(target=append, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = list(worlds[0].history.export())
    assert sorted(outcome.event_id for outcome in outcomes) == [event.id for event in events]
    assert len(conflicts) == 12  # of three who label the same samples one is first
    assert all("was labeled" in conflict for conflict in conflicts)
    assert [event.model_version for event in events] == list(range(1, len(events) + 1))
    for world in worlds:
        wait_for(lambda world=world: world.model.version == len(events))
    models = [world.model._front.model for world in worlds]
    assert state_of(models[0]) == state_of(models[1]) == state_of(models[2])


def test_servers_that_start_together_begin_once(url: str, models: Callable[[str], Any]) -> None:
    opened: list[World] = []
    base = models("nno")
    threads = [threading.Thread(target=lambda: opened.append(World.open(url, base))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [world.model.version for world in opened] == [0] * 4
    secrets = {session_secret(load_settings(database=url), world.replicas) for world in opened}
    assert len(secrets) == 1  # a login at one is a login at all
    for world in opened:
        world.close()
