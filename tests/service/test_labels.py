"""Erasing samples: nothing of them is left, in the database or in the model, and replay stays exact."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from openworld import model_file
from openworld.recognition import ColdStartRecognizer
from openworld.service.validation import NotFound, Refused
from openworld.service.world import World
from openworld.store import events
from openworld.store.records import PoolFilter, SampleContent

Draw = Callable[..., NDArray[np.float32]]
SECRET = "the only place with these words"


def first() -> Any:
    return ColdStartRecognizer(n_lifted=0).start(4)


def fill(world: World, things: Draw, leave_out: int | None = None) -> list[int]:
    """Name three clusters of ten, correct one sample, and return the samples; one may be left out."""
    X = np.vstack([things(kind, 10) for kind in range(3)])
    items = [SampleContent("text", SECRET if i == 13 else f"text {i}", "door") for i in range(30)]
    ids = [i for i in world.recognize(X, items).sample_ids if i is not None]
    for start, label in ((0, "a"), (10, "b"), (20, "c")):
        chosen = [ids[i] for i in range(start, start + 10) if i != leave_out]
        world.labels.label(chosen, label, "ann")
    world.classes.rename("c", "d", "ann")
    return ids


def digest(world: World) -> str:
    return model_file.digest(world.model.to_bytes())


def test_the_model_is_as_if_the_sample_had_never_been_learned(url: str, tmp_path: Path, things: Draw) -> None:
    with World.open(f"sqlite:///{tmp_path / 'other.db'}", first) as other:
        fill(other, things, leave_out=13)
        expected = digest(other)
    with World.open(url, first) as world:
        ids = fill(world, things)
        world.event_log.snapshot()
        assert digest(world) != expected
        outcome = world.labels.erase([ids[13]], "ann")
        assert (outcome.kind, outcome.samples, outcome.model_version) == ("erase", 1, 5)
        assert digest(world) == expected
        with pytest.raises(NotFound):
            world.pool.get(ids[13])
        with pytest.raises(NotFound):
            world.pool.features([ids[13]])
        with world.event_log.database.read() as connection:
            histories = events.snapshot_histories(connection)
        assert len(histories) == 1  # that of the first model
        world.event_log.snapshot()
        (newest, *_) = world.history.events()
        assert (newest.kind, newest.payload) == ("erase", {"samples": [ids[13]]})
        world.history.undo("ann")  # not the erasure, which stays: the renaming
        world.history.redo("ann")
        assert digest(world) == expected
    with World.open(url, first) as world:  # from the new snapshot, and from the log
        assert digest(world) == expected
        assert world.classes.get("b").count == 9
        world.history.undo("ann")
        world.history.undo("ann")
        world.history.redo("ann")
        world.history.redo("ann")
        assert digest(world) == expected


def test_the_file_no_longer_holds_it(tmp_path: Path, things: Draw) -> None:
    file = tmp_path / "world.db"
    with World.open(f"sqlite:///{file}", first) as world:
        ids = fill(world, things)
        feature = world.pool.features([ids[13]]).tobytes()
        world.event_log.snapshot()
    assert SECRET.encode() in file.read_bytes()
    assert feature in file.read_bytes()
    with World.open(f"sqlite:///{file}") as world:
        world.labels.erase([ids[13]], "ann")
    for left in tmp_path.glob("world.db*"):
        assert SECRET.encode() not in left.read_bytes()
        assert feature not in left.read_bytes()


def test_a_pending_sample_is_erased_without_a_new_version(world: World, things: Draw) -> None:
    ids = [i for i in world.recognize(things(5, 3)).sample_ids if i is not None]
    outcome = world.labels.erase(ids[:2], "ann")
    assert outcome.model_version == 0
    assert world.pool.ids() == ids[2:]
    with pytest.raises(NotFound, match="nothing to undo"):
        world.history.undo("ann")
    again = world.recognize(things(5, 3)).sample_ids
    assert again[2] == ids[2]
    assert again[0] not in ids  # a new sample, not the old one


def test_what_later_events_need_is_not_erased(world: World, things: Draw) -> None:
    (sample,) = [i for i in world.recognize(things(5)).sample_ids if i is not None]
    world.labels.label([sample], "e", "ann")
    world.classes.rename("e", "f", "ann")
    before = digest(world)
    with pytest.raises(Refused, match=r"rename by ann.*undo that one first"):
        world.labels.erase([sample], "ann")
    assert digest(world) == before
    assert world.pool.get(sample).label == "f"
    world.history.undo("ann")
    world.labels.erase([sample], "ann")
    assert "e" not in [info.label for info in world.classes.all()]


def test_other_servers_follow(postgres_url: str, things: Draw) -> None:
    with World.open(postgres_url, first) as one, World.open(postgres_url) as other:
        ids = fill(one, things)
        other.event_log.follow()
        before = digest(other)
        one.labels.erase([ids[13]], "ann")
        other.event_log.snapshot()  # of what it knows: it is not kept, as it has learned the sample
        other.event_log.follow()
        assert digest(other) == digest(one) != before
    with World.open(postgres_url) as again:
        assert digest(again) != before


# -- relabeling -----------------------------------------------------------------------------------


def _unknown(world: Any, things: Any) -> list[int]:
    return [i for i in world.recognize(things(5, 6, 1)).sample_ids if i is not None]


def test_the_model_forgets_the_sample_where_it_was(world: Any, things: Any) -> None:
    ids = _unknown(world, things)
    features = world.pool.features(ids).astype(np.float64)
    world.labels.label(ids[:5], "giraffe", "ann")
    world.labels.relabel([ids[0]], "zebra", "ann", admin=False)
    assert world.pool.get(ids[0]).label == "zebra"
    assert world.pool.ids(PoolFilter(state="labeled", label="giraffe")) == ids[1:5]
    with world.model.reading() as (model, _):
        assert model.class_mean("giraffe") == pytest.approx(features[1:5].mean(axis=0), abs=1e-5)
        assert model.class_mean("zebra") == pytest.approx(features[0], abs=1e-5)
    version = world.model.version
    assert world.labels.relabel([ids[0]], "zebra", "ann", admin=False).event_id is None
    assert world.model.version == version

    world.labels.relabel(ids[1:3], None, "ann", admin=False)
    assert world.pool.ids(PoolFilter(state="labeled", label="giraffe")) == ids[3:5]
    with world.model.reading() as (model, _):
        assert model.statistics_.count("giraffe") == 2


def test_what_others_build_on_is_refused_and_changes_nothing(world: Any, things: Any) -> None:
    ids = _unknown(world, things)
    world.labels.label(ids[:3], "okapi", "ann")
    world.classes.rename("okapi", "giraffe", "ann")
    world.labels.label(ids[3:], "giraffe", "ann")
    with pytest.raises(Refused, match="depends on this"):
        world.labels.relabel([ids[0], ids[5]], "zebra", "ann", admin=False)
    assert world.pool.ids(PoolFilter(state="labeled", label="giraffe")) == ids
    with world.model.reading() as (model, _):
        assert model.statistics_.count("giraffe") == 6


def test_others_labels_are_changed_by_an_admin_alone(world: Any, things: Any) -> None:
    ids = _unknown(world, things)
    world.labels.label(ids, "okapi", "bob")
    with pytest.raises(Refused, match="bob labeled some of these samples"):
        world.labels.relabel(ids[:1], "zebra", "ann", admin=False)
    assert len(world.history.events()) == 1
    world.labels.relabel(ids[:1], "zebra", "ann", admin=True)
    assert world.pool.get(ids[0]).label == "zebra"
