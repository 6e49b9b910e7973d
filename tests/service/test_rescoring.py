"""Rescoring: what a new version changes in the unknown pool is counted once, whichever thread judges it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from openworld.service.world import World

Draw = Callable[..., NDArray[np.float32]]


@pytest.fixture
def world(tmp_path: Path, models: Callable[[str], Any]) -> Iterator[World]:
    with World.open(f"sqlite:///{tmp_path / 'world.db'}", models("nno")) as world:
        yield world


def test_samples_judged_before_the_pass_over_the_pool_are_counted(
    world: World, things: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that learns late of a version may judge some samples by it before the pass begins."""
    rescorer = world.rescorer
    assert rescorer.wait(timeout=300) is not None
    ids = [i for i in world.recognize(things(5, 20)).sample_ids if i is not None]
    begin, judge_all = threading.Event(), rescorer._judge_all
    monkeypatch.setattr(rescorer, "_judge_all", lambda: begin.wait(300) and judge_all())
    outcome = world.labels.label(ids[:10], "teapot", "ann")
    rescorer.rescore(ids)
    rescorer._judge_outdated()
    assert {world.pool.get(i).state for i in ids[10:]} == {"recognized"}
    begin.set()
    done = rescorer.wait(outcome.model_version, timeout=300)
    assert done is not None
    assert (done.recognized, done.returned) == (10, 0)
    assert world.history.versions()[0].summary["recognized"] == 10


def test_samples_that_cannot_be_judged_for_a_while_are_judged_later(
    world: World, things: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    rescorer, attempts = world.rescorer, list[list[int]]()
    assert rescorer.wait(timeout=300) is not None
    ids = [i for i in world.recognize(things(5, 3)).sample_ids if i is not None]
    judged, judge = threading.Event(), rescorer._judge

    def fail_once(found: Any, features: Any) -> int:
        attempts.append([sample.id for sample in found])
        if len(attempts) == 1:
            raise ConnectionError("The database is away.")
        judged.set()
        return judge(found, features)

    monkeypatch.setattr(rescorer, "_judge", fail_once)
    monkeypatch.setattr(rescorer, "_pause", lambda seconds: None)
    rescorer.rescore(ids)
    assert judged.wait(300)
    assert attempts == [ids, ids]


@pytest.mark.skipif(sys.platform != "linux", reason="only there have threads priorities of their own")
def test_rescoring_has_a_lower_priority_than_recognition(world: World) -> None:
    assert world.rescorer.wait(timeout=300) is not None
    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    thread = world.rescorer._thread.native_id
    assert thread is not None
    assert os.getpriority(os.PRIO_PROCESS, thread) == min(own + 10, 19)
