"""The operating point: previewed, moved, undone; the same after a restart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from openworld import OpenWorldRecognizer
from openworld.recognition import KnownRecall
from openworld.service.recognized import Review
from openworld.service.results import Conflict, PoolFilter, Refused
from openworld.service.settings import WorldSettings
from openworld.service.world import World

CENTERS = np.random.default_rng(5).normal(size=(12, 6)) * 2.2
KEEP = WorldSettings(keep_random=1.0)


def _draw(kind: int, n: int, seed: int = 0) -> NDArray[np.float32]:
    random = np.random.default_rng([kind, seed])
    return (CENTERS[kind] + random.normal(size=(n, 6))).astype(np.float32)


@pytest.fixture(scope="module")
def model() -> OpenWorldRecognizer:
    X, y = np.vstack([_draw(kind, 20) for kind in range(6)]), np.repeat(list("abcdef"), 20)
    return OpenWorldRecognizer(n_lifted=0, refresh_growth=0.1).fit(X, y)


@pytest.fixture
def overlapping(model: OpenWorldRecognizer, tmp_path: Path) -> Iterator[World]:
    """A world of classes that overlap, with samples of known and unknown classes."""
    with World.open(f"sqlite:///{tmp_path / 'overlapping.db'}", model, KEEP) as world:
        world.recognize(np.vstack([_draw(kind, 15, 1) for kind in range(12)]))
        yield world


def _states(world: World) -> tuple[int, int]:
    world.rescorer.wait()
    progress = world.labels.progress("ann")
    return progress.pending, progress.recognized


def test_a_preview_tells_what_moving_does(overlapping: World) -> None:
    point, before = overlapping.operating_point, _states(overlapping)
    assert (point.get().objective, point.get().preview) == ("error", None)
    lenient, strict = (point.get(text).preview for text in ("recall=0.99", "far=0.01"))
    assert lenient is not None
    assert strict is not None
    assert (lenient.pending, lenient.recognized) == before
    assert lenient.threshold < point.get().threshold < strict.threshold
    assert lenient.would_be_known > 0 == lenient.would_be_unknown
    assert strict.would_be_unknown > 0 == strict.would_be_known
    assert _states(overlapping) == before

    outcome = point.move("recall=.99", "ann")
    assert (outcome.kind, outcome.model_version) == ("objective", 1)
    assert point.get().objective == "recall=0.99"
    assert point.get().threshold == lenient.threshold
    assert _states(overlapping) == (before[0] - lenient.would_be_known, before[1] + lenient.would_be_known)
    assert point.move("recall=0.99", "bob").event_id is None
    overlapping.history.undo("ann")
    assert point.get().objective == "error"
    assert _states(overlapping) == before


def test_reviewed_samples_tell_how_many_wrong_answers_there_would_be(overlapping: World) -> None:
    kept = overlapping.pool.ids(PoolFilter("recognized"))
    wrong = [i for i in kept if i > 90]  # of the six unknown classes
    assert wrong
    overlapping.recognized.feedback([Review(i, right=i not in wrong) for i in kept], "ann")
    found = overlapping.operating_point.get("far=0.001").preview
    assert found is not None
    assert found.reviewed == len(kept)
    assert found.wrong_then < found.wrong_now <= len(wrong)


def test_what_was_moved_is_moved_after_a_restart(
    model: OpenWorldRecognizer, tmp_path: Path, state_of: Callable[[Any], Any]
) -> None:
    url = f"sqlite:///{tmp_path / 'world.db'}"
    with World.open(url, model) as world:
        world.operating_point.move("recall=0.9", "ann")
        world.labels.learn(_draw(7, 3), ["g"] * 3, "ann")
        with world.model.reading() as (live, _):
            before = state_of(live)
    with World.open(url) as world, world.model.reading() as (live, _):
        assert state_of(live) == before
        assert live.objective == KnownRecall(0.9)  # type: ignore[attr-defined]


def test_what_cannot_be_an_operating_point_is_refused(
    overlapping: World, models: Callable[[str], Any], tmp_path: Path
) -> None:
    with pytest.raises(Refused, match="no objective 'strict'"):
        overlapping.operating_point.get("strict")
    with pytest.raises(Refused, match="no objective 'recall=2'"):
        overlapping.operating_point.move("recall=2", "ann")
    with World.open(f"sqlite:///{tmp_path / 'nno.db'}", models("nno")) as world:
        assert world.operating_point.get().objective is None
        with pytest.raises(Conflict, match="NearestNonOutlier has no operating point to move"):
            world.operating_point.move("recall=0.9", "ann")
        with pytest.raises(Conflict, match="its threshold is fixed"):
            world.operating_point.get("recall=0.9")
