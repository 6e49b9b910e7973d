"""The known classes: names, merging, order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray

from openworld.service.validation import NotFound, Refused
from openworld.service.world import World


@pytest.fixture
def small(models: Callable[[str], Any], tmp_path: Path) -> Iterator[World]:
    with World.open(f"sqlite:///{tmp_path / 'world.db'}", models("nno")) as world:
        yield world


def test_classes_are_merged_only_into_another_class_that_exists(small: World) -> None:
    with pytest.raises(NotFound, match="no class 'd'"):
        small.classes.merge(["a", "b"], "d", "ann")
    for labels in (["a"], ["a", "a"], []):
        with pytest.raises(Refused, match="cannot be merged into itself"):
            small.classes.merge(labels, "a", "ann")
    assert (small.history.events(), small.model.version) == ([], 0)
    outcome = small.classes.merge(["a", "b"], "b", "ann")
    assert (outcome.added, outcome.removed) == ((), ("a",))
    assert [(info.label, info.count) for info in small.classes.all()] == [("b", 24), ("c", 12)]


def test_a_second_spelling_of_a_name_is_the_same_class(
    small: World, things: Callable[..., NDArray[Any]]
) -> None:
    small.labels.learn(things(5, 2), ["red panda", "red  panda"], "ann")
    small.labels.learn(things(6, 2), ["caf\u00e9", "cafe\u0301"], "ann")
    assert [info.label for info in small.classes.all()] == ["a", "b", "c", "caf\u00e9", "red panda"]
    with pytest.raises(Refused, match="already"):
        small.classes.rename("a", "red   panda", "ann")


def test_a_class_of_the_first_model_keeps_its_name(
    models: Callable[[str], Any], things: Callable[..., NDArray[Any]], tmp_path: Path
) -> None:
    model = models("nno")
    model.rename_class("a", "two  spaces")
    with World.open(f"sqlite:///{tmp_path / 'world.db'}", model) as world:
        world.labels.learn(things(0, 1, 9), ["two  spaces"], "ann")
        assert [(i.label, i.count) for i in world.classes.all()][-1] == ("two  spaces", 13)


def test_classes_are_listed_as_people_sort(small: World, things: Callable[..., NDArray[Any]]) -> None:
    small.labels.learn(things(5, 3), ["class 10", "class 9", "B"], "ann")
    assert [info.label for info in small.classes.all()] == ["a", "B", "b", "c", "class 9", "class 10"]
