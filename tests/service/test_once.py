"""What is asked twice under one key is done once, by whichever server, and whatever happens in between."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from openworld.service.once import Asked
from openworld.service.results import Outcome, Refused
from openworld.service.world import World
from openworld.store import requests

Draw = Callable[..., NDArray[np.float32]]
ASKED = Asked("ann", "k1", "what is asked")


def _kinds(world: World) -> list[str]:
    return [event.kind for event in world.history()]


def test_the_second_time_is_answered_as_the_first(world: World, things: Draw) -> None:
    def learn() -> Outcome:
        return world.learn(things(5, 3), ["five"] * 3, "ann")

    first = world.once.do(ASKED, learn)
    assert (first.added, first.samples) == (("five",), 3)
    world.undo("bob", first.event_id)
    assert world.once.do(ASKED, learn) == first
    assert _kinds(world) == ["undo", "learn"]
    with pytest.raises(Refused, match="'k1' came before with another request"):
        world.once.do(replace(ASKED, digest="another"), learn)
    assert world.once.do(replace(ASKED, who="bob"), learn).event_id == 3
    assert world.once.do(replace(ASKED, part=1), learn).event_id is None
    world.undo("ann", 3)
    assert world.once.do(replace(ASKED, part=1), learn).event_id is None  # as before


def test_another_server_and_one_that_starts_again_know_it(
    url: str, things: Draw, models: Callable[[str], Any]
) -> None:
    with World.open(url, models("nno")) as world, World.open(url) as other:
        first = world.once.do(ASKED, lambda: world.learn(things(5, 3), ["five"] * 3, "ann"))
        assert other.once.do(ASKED, lambda: other.undo("ann")) == first
    with World.open(url) as world:
        assert world.once.do(ASKED, lambda: world.undo("ann")) == first
        assert _kinds(world) == ["learn"]


def test_many_at_the_same_moment_are_one(world: World, things: Draw) -> None:
    for kind in range(3, 9):
        world.learn(things(kind, 2), [f"k{kind}"] * 2, "ann")
    found: list[Outcome] = []

    def undo() -> None:
        found.append(world.once.do(ASKED, lambda: world.undo("ann")))

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
        world.once.do(ASKED, lambda: world.learn(things(5), [""], "ann"))
    assert world.once.do(ASKED, lambda: world.learn(things(5), ["five"], "ann")).added == ("five",)


def test_act_and_answer_are_written_together_or_not_at_all(
    world: World, things: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(requests, "keep", fail)
        with pytest.raises(OSError, match="full"):
            world.once.do(ASKED, lambda: world.learn(things(5), ["five"], "ann"))
    assert _kinds(world) == []
    assert world.recognize(things(5), remember=False).labels == [None]
    assert world.once.answer(ASKED) is None
    world.learn(things(5), ["five"], "ann")  # an act that nobody asked to do once
    assert world.once.answer(ASKED) is None


def test_the_answer_to_what_is_no_act_is_kept_once(world: World) -> None:
    world.once.keep(ASKED, "[1]")
    world.once.keep(ASKED, "[2]")
    assert world.once.answer(ASKED) == "[1]"
