"""Rescoring: what a new version changes in the unknown pool is counted once, whichever thread judges it."""

from __future__ import annotations

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
