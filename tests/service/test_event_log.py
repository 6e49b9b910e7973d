"""The event log: what cannot be written did not happen; snapshots shorten a restart and are few."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from openworld.service import replay
from openworld.service.settings import WorldSettings
from openworld.service.world import World
from openworld.store import events
from openworld.store.records import PoolFilter
from openworld.store.storage import DamagedError

Draw = Callable[..., NDArray[np.float32]]
DATA = Path(__file__).parent / "data"
KINDS_OF_0_1 = {
    *("learn", "label", "accept", "dismiss", "describe", "rename", "merge", "forget"),
    *("merge_clusters", "split_cluster", "undo", "redo", "activate"),
}


@pytest.fixture
def sqlite_world(tmp_path: Path, models: Callable[[str], Any]) -> Iterator[World]:
    settings = WorldSettings(snapshot_events=2, snapshots_kept=2, rescore_batch=2)
    with World.open(f"sqlite:///{tmp_path / 'world.db'}", models("nno"), settings) as world:
        yield world


def test_an_event_that_cannot_be_written_did_not_happen(
    sqlite_world: World, things: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = things(5, 3, 1)
    before = sqlite_world.recognize(probe, remember=False)
    with monkeypatch.context() as patch:
        patch.setattr(events, "add_version", _fail)
        with pytest.raises(OSError, match="disk full"):
            sqlite_world.labels.learn(things(5, 3), ["five"] * 3, "ann")
        with pytest.raises(OSError, match="disk full"):
            sqlite_world.classes.forget("a", "ann")
    after = sqlite_world.recognize(probe, remember=False)
    assert (after.model_version, after.labels) == (0, before.labels)
    assert np.array_equal(after.judgement.decision, before.judgement.decision)
    assert (sqlite_world.history.events(), sqlite_world.pool.count()) == ([], 0)
    outcome = sqlite_world.labels.learn(things(5, 3), ["five"] * 3, "ann")
    assert (outcome.added, outcome.removed) == (("five",), ())
    assert {info.label: info.count for info in sqlite_world.classes.all()}["five"] == 3
    assert sqlite_world.recognize(probe).labels == ["five"] * 3


def _fail(*_: Any) -> None:
    raise OSError("disk full")


def test_samples_that_cannot_be_stored_fail_the_request_and_not_the_next(
    sqlite_world: World, things: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("openworld.service.recognition.store", _fail)
        with pytest.raises(OSError, match="disk full"):
            sqlite_world.recognize(things(5))
    assert sqlite_world.recognize(things(5)).sample_ids == [1]


def test_a_start_teaches_only_what_came_after_the_last_snapshot(
    sqlite_world: World, things: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in range(3, 12):
        sqlite_world.labels.learn(things(kind, 2), [f"k{kind}"] * 2, "ann")
        sqlite_world.rescorer.wait(timeout=300)
    url = str(sqlite_world._database.url)
    sqlite_world.close()  # a snapshot that was under way is done by now
    with sqlite_world._database.read() as connection:
        kept = events.snapshot_histories(connection)
        known = {version.history: version.id for version in events.version_list(connection)}
    assert len(kept) <= 3
    assert known[kept[0]] == 0
    taught: list[Any] = []
    change_of = replay.model_change
    monkeypatch.setattr(replay, "model_change", lambda *args: taught.append(args) or change_of(*args))
    with World.open(url) as again:
        assert len(taught) == again.model.version - max(known[history] for history in kept) < 9


def test_a_damaged_snapshot_only_makes_the_start_longer(sqlite_world: World, things: Draw) -> None:
    """The service did not start, although the first model and the log have all that is needed."""
    for kind in range(3, 6):
        sqlite_world.labels.learn(things(kind, 2), [f"k{kind}"] * 2, "ann")
    sqlite_world.event_log.snapshot()
    probe = things(4, 3, 1)
    before = sqlite_world.recognize(probe, remember=False)
    url = str(sqlite_world._database.url)
    sqlite_world.close()
    file = sqlite_world._database.url.database
    with closing(sqlite3.connect(str(file))) as connection, connection:
        damaged = "UPDATE snapshots SET data = zeroblob(1000) WHERE is_base = ?"
        assert connection.execute(damaged, (False,)).rowcount > 0
    with World.open(url) as again:
        after = again.recognize(probe, remember=False)
    assert after.model_version == before.model_version
    assert np.array_equal(after.judgement.decision, before.judgement.decision)
    with closing(sqlite3.connect(str(file))) as connection, connection:
        connection.execute(damaged, (True,))
    with pytest.raises(DamagedError, match="first model in the database is damaged: restore a backup"):
        World.open(url)


def test_samples_judged_by_a_version_of_the_past_are_judged_again(
    sqlite_world: World, things: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = sqlite_world.recognition._writer.store

    def store_late(new: Any) -> list[int]:
        sqlite_world.labels.learn(things(5, 3, 1), ["five"] * 3, "ann")
        assert sqlite_world.rescorer.wait(timeout=300) is not None  # the pool was scored without these
        return store(new)

    monkeypatch.setattr(sqlite_world.recognition._writer, "store", store_late)
    answers = sqlite_world.recognize(things(5, 3))
    assert (answers.labels, answers.model_version) == ([None] * 3, 0)
    end = time.monotonic() + 300
    while sqlite_world.pool.count() and time.monotonic() < end:
        time.sleep(0.01)
    assert [sqlite_world.pool.get(i).answer for i in answers.sample_ids if i] == ["five"] * 3


def test_a_version_published_while_the_pool_is_scored_is_taken_into_account(
    sqlite_world: World, things: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    five, six = (
        [i for i in sqlite_world.recognize(things(kind, 4)).sample_ids if i is not None] for kind in (5, 6)
    )
    rescorer = sqlite_world.rescorer
    judge, calls = rescorer._judge, 0

    def judge_while_people_label(*batch: Any) -> int:
        nonlocal calls
        calls += 1
        if calls == 3:  # a batch is two samples: those of five were judged without this
            sqlite_world.labels.learn(things(5, 3, 1), ["five"] * 3, "ann")
        return judge(*batch)

    sqlite_world.rescorer.wait(timeout=300)
    monkeypatch.setattr(rescorer, "_judge", judge_while_people_label)
    sqlite_world.labels.learn(things(6, 3, 1), ["six"] * 3, "ann")
    done = sqlite_world.rescorer.wait(2, timeout=300)
    assert done is not None
    assert (done.model_version, done.recognized) == (2, 8)
    assert calls == 6  # two batches, then all four by the newer version
    assert [sqlite_world.pool.get(i).answer for i in (*five, *six)] == ["five"] * 4 + ["six"] * 4


def test_a_database_of_version_0_1_opens_with_the_same_model_labels_and_history(tmp_path: Path) -> None:
    """The database has every kind of event; it was written before there was a class for each."""
    path = tmp_path / "world.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((DATA / "events_0.1.sql").read_text())
    expected = json.loads((DATA / "events_0.1.json").read_text())
    probe = np.array(expected["probe"], dtype=np.float32)
    with World.open(f"sqlite:///{path}") as world:
        answers = world.recognize(probe, remember=False)
        assert (answers.model_version, answers.labels) == (expected["version"], expected["labels"])
        np.testing.assert_allclose(answers.judgement.decision, expected["decision"], rtol=1e-5)
        history = list(world.history.export())
        assert {event.kind for event in history} == KINDS_OF_0_1
        assert [[e.kind, e.undoes, e.undone_by, e.model_version] for e in history] == expected["history"]
        states = {
            str(s.id): [s.state, s.label, s.who, s.cluster_id]
            for s in world.pool.page(PoolFilter(state=None), limit=100).samples
        }
        assert states == expected["samples"]
        classes = {info.label: [info.count, info.description] for info in world.classes.all()}
        assert classes == expected["classes"]
        comparison = world.history.compare(0, expected["version"])
        assert [list(comparison.added), list(comparison.removed)] == expected["comparison"]
        world.history.undo("cat")  # a rollback: what was learned and forgotten before it counts again
        assert [info.label for info in world.classes.all()] == ["a", "c", "numbers", "sept"]
