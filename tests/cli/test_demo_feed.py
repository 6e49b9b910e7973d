"""The demonstration: letters that people can name, without end, and recognized once they are named."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from openworld.cli import demo_feed
from openworld.cli.demo_feed import NAMEABLE, LetterFeed, starting_model
from openworld.data.letters import load_letters
from openworld.service.pages.classes import is_picture
from openworld.service.world import World


def test_letters_keep_coming_and_no_two_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    letters = load_letters()
    model = starting_model(letters, 1)
    assert set(model.classes_) <= set(NAMEABLE)
    assert len(set(NAMEABLE) & set(letters.classes)) == len(NAMEABLE)
    examples = model.examples_  # type: ignore[attr-defined]
    assert sorted(examples) == sorted(model.classes_)
    assert all(is_picture(picture) for some in examples.values() for picture in some)
    seen: list[Any] = []

    class Stop:
        def wait(self, _: float) -> bool:
            return len(seen) > 60

    monkeypatch.setattr(demo_feed, "_AT_ONCE", 20)
    with World.open(f"sqlite:///{tmp_path / 'letters.db'}", model) as world:
        metrics = SimpleNamespace(answered=lambda answers: seen.extend(answers.labels))
        service: Any = SimpleNamespace(world=world, metrics=metrics)
        LetterFeed(letters, 1)._feed(service, Stop())  # type: ignore[arg-type]
        stored = world.pool.page(limit=200).samples
        features = world.pool.features([sample.id for sample in stored])
    assert len(seen) > 60
    assert 0 < seen.count(None) < len(seen)  # known ones come too
    assert all(sample.seen == 1 for sample in stored)
    assert len(np.unique(features, axis=0)) == len(stored)
