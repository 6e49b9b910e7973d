"""A request repeated under its idempotency key has its effect once, on any server, after any interruption."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from openworld.service.event_log import EventOutcome
from openworld.service.idempotency import IdempotencyKey
from openworld.service.validation import Refused
from openworld.service.world import World
from openworld.store import idempotency

Draw = Callable[..., NDArray[np.float32]]
KEY = IdempotencyKey("ann", "k1", "digest of the request")


def _kinds(world: World) -> list[str]:
    return [event.kind for event in world.history.events()]


def test_the_second_time_is_answered_as_the_first(world: World, things: Draw) -> None:
    def learn() -> EventOutcome:
        return world.labels.learn(things(5, 3), ["five"] * 3, "ann")

    first = world.idempotency.run(KEY, learn)
    assert (first.added, first.samples) == (("five",), 3)
    world.history.undo("bob", first.event_id)
    assert world.idempotency.run(KEY, learn) == first
    assert _kinds(world) == ["undo", "learn"]
    with pytest.raises(Refused, match="'k1' came before with another request"):
        world.idempotency.run(replace(KEY, digest="another"), learn)
    assert world.idempotency.run(replace(KEY, who="bob"), learn).event_id == 3
    assert world.idempotency.run(replace(KEY, part=1), learn).event_id is None
    world.history.undo("ann", 3)
    assert world.idempotency.run(replace(KEY, part=1), learn).event_id is None  # as before


def test_another_server_and_one_that_starts_again_know_it(
    url: str, things: Draw, models: Callable[[str], Any]
) -> None:
    with World.open(url, models("nno")) as world:
        first = world.idempotency.run(KEY, lambda: world.labels.learn(things(5, 3), ["five"] * 3, "ann"))
        if url.startswith("postgresql"):  # an SQLite file has one server
            with World.open(url) as other:
                assert other.idempotency.run(KEY, lambda: other.history.undo("ann")) == first
    with World.open(url) as world:
        assert world.idempotency.run(KEY, lambda: world.history.undo("ann")) == first
        assert _kinds(world) == ["learn"]


def test_many_at_the_same_moment_are_one(world: World, things: Draw) -> None:
    for kind in range(3, 9):
        world.labels.learn(things(kind, 2), [f"k{kind}"] * 2, "ann")
    found: list[EventOutcome] = []

    def undo() -> None:
        found.append(world.idempotency.run(KEY, lambda: world.history.undo("ann")))

    threads = [threading.Thread(target=undo) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert len(set(found)) == 1
    assert _kinds(world).count("undo") == 1


def test_what_failed_is_tried_again(world: World, things: Draw) -> None:
    with pytest.raises(Refused):
        world.idempotency.run(KEY, lambda: world.labels.learn(things(5), [""], "ann"))
    assert world.idempotency.run(KEY, lambda: world.labels.learn(things(5), ["five"], "ann")).added == (
        "five",
    )


def test_event_and_answer_are_written_together_or_not_at_all(
    world: World, things: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(idempotency, "put", fail)
        with pytest.raises(OSError, match="full"):
            world.idempotency.run(KEY, lambda: world.labels.learn(things(5), ["five"], "ann"))
    assert _kinds(world) == []
    assert world.recognize(things(5), remember=False).labels == [None]
    assert world.idempotency.find(KEY) is None
    world.labels.learn(things(5), ["five"], "ann")  # without a key
    assert world.idempotency.find(KEY) is None


def test_the_answer_to_a_request_without_an_event_is_stored_once(world: World) -> None:
    world.idempotency.store(KEY, "[1]")
    world.idempotency.store(KEY, "[2]")
    assert world.idempotency.find(KEY) == "[1]"
