"""Corrections: who moved which samples between classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from openworld.service.corrections import Correction, corrections_of
from openworld.service.quality import Review
from openworld.service.settings import WorldSettings
from openworld.service.world import World

Draw = Callable[..., NDArray[np.float32]]


@pytest.fixture
def keeping(url: str, models: Any) -> Any:
    with World.open(url, models("nno"), WorldSettings(keep_random=1.0)) as found:
        yield found


def _seen(world: World, label: str) -> list[tuple[tuple[int, ...], str, str | None, str]]:
    found: list[Correction] = corrections_of(world.event_log, label)
    return [(one.samples, one.before, one.after, one.who) for one in found]


def test_reviews_that_correct_an_answer(keeping: World, things: Draw) -> None:
    right, wrong, unknown = (i or 0 for i in keeping.recognize(things(0, 3)).sample_ids)
    reviews = [Review(right, True), Review(wrong, False, "b"), Review(unknown, False)]
    keeping.recognized.feedback(reviews, "ann")
    assert _seen(keeping, "a") == [((wrong,), "a", "b", "ann"), ((unknown,), "a", None, "ann")]
    assert _seen(keeping, "b") == [((wrong,), "a", "b", "ann")]
    assert _seen(keeping, "c") == []


def test_samples_that_were_moved_and_those_left_alone(keeping: World, things: Draw) -> None:
    ids = [i or 0 for i in keeping.recognize(things(5, 4)).sample_ids]
    keeping.labels.label(ids, "five", "ann")
    assert _seen(keeping, "five") == []  # a first label corrects nothing
    keeping.labels.relabel(ids[:1], "six", "bob", admin=True)
    keeping.labels.relabel(ids[1:2], None, "bob", admin=True)
    assert _seen(keeping, "five") == [((ids[1],), "five", None, "bob"), ((ids[0],), "five", "six", "bob")]
    keeping.classes.rename("six", "sixth", "ann")
    assert _seen(keeping, "sixth") == [((ids[0],), "five", "sixth", "bob")]


def test_undo_takes_a_class_away_and_redo_gives_it_again(keeping: World, things: Draw) -> None:
    ids = tuple(i or 0 for i in keeping.recognize(things(5, 2)).sample_ids)
    keeping.labels.label(ids, "five", "ann")
    keeping.history.undo("bob", 1)
    assert _seen(keeping, "five") == [(ids, "five", None, "bob")]
    keeping.history.redo("bob")
    assert _seen(keeping, "five") == []
