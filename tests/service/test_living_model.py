"""The living model: readers never wait, never fail, and see one version at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from openworld.service.acts import Forgetting, Lesson, Renaming, Step, apply
from openworld.service.living_model import LivingModel
from openworld.service.model_bytes import copy
from openworld.service.results import Refused

Draw = Callable[..., NDArray[np.float32]]
Models = Callable[[str], Any]


def _change(living: LivingModel, step: Step) -> None:
    living.prepare([step])
    living.publish(living.version + 1)


def _front(living: LivingModel) -> Any:
    with living.reading() as (model, _):
        return model


@pytest.mark.parametrize("recognizer", ["nno", "0", "0.1"])
def test_every_answer_is_that_of_the_version_it_names(recognizer: str, things: Draw, models: Models) -> None:
    base = copy(models(recognizer))
    steps: list[Step] = [
        Lesson(things(kind, 3, seed), [f"k{kind}"] * 3) for seed in range(2) for kind in range(3, 7)
    ]
    steps[3:3] = [Renaming("k4", "z"), Forgetting("k5")]
    probe = np.vstack([things(kind, 2, 50) for kind in range(12)])
    expected, model = [base.decision_function(probe)], copy(base)
    for step in steps:
        apply(model, step)
        expected.append(model.decision_function(probe))

    living = LivingModel(base, 0)
    done, failures = threading.Event(), []
    seen: list[list[int]] = [[], [], []]

    def read(versions: list[int]) -> None:
        while not done.is_set() or not versions:
            with living.reading() as (model, version):
                if not np.array_equal(model.decision_function(probe), expected[version]):
                    failures.append(version)
            versions.append(version)

    readers = [threading.Thread(target=read, args=(versions,)) for versions in seen]
    for reader in readers:
        reader.start()
    for step in steps:
        _change(living, step)
    done.set()
    for reader in readers:
        reader.join()
    assert failures == []
    assert living.version == len(steps)
    for versions in seen:
        assert versions == sorted(versions)


def test_a_reader_keeps_its_version_while_others_come(
    things: Draw, models: Models, state_of: Callable[[Any], Any]
) -> None:
    living = LivingModel(copy(models("nno")), 0)
    with living.reading() as (old, version):
        before = state_of(old)
        _change(living, Lesson(things(5, 3), ["new"] * 3))
        with living.reading() as (new, newer):
            assert (version, newer) == (0, 1)
            assert "new" in new.classes_
        assert state_of(old) == before
    living.catch_up()
    _change(living, Lesson(things(6, 3), ["newer"] * 3))
    with living.reading() as (model, _):
        assert {"new", "newer"} <= set(model.classes_)


def test_the_second_change_waits_for_the_readers_of_the_copy_it_needs(things: Draw, models: Models) -> None:
    living = LivingModel(copy(models("nno")), 0)
    second = threading.Thread(target=_change, args=(living, Lesson(things(6, 3), ["newer"] * 3)))
    with living.reading() as (old, _):
        _change(living, Lesson(things(5, 3), ["new"] * 3))
        second.start()
        with living.reading() as (_, version):  # other readers do not wait
            assert version == 1
        assert "new" not in old.classes_
    second.join()
    assert living.version == 2


def test_what_is_refused_or_given_up_leaves_no_trace(
    things: Draw, models: Models, state_of: Callable[[Any], Any]
) -> None:
    living = LivingModel(copy(models("0")), 0)
    before = state_of(_front(living))
    with pytest.raises(Refused):
        living.prepare([Lesson(things(5, 3), ["new"] * 3), Forgetting("nothing")])
    living.prepare([Lesson(things(6, 3), ["other"] * 3)])
    living.give_up()
    living.replace(copy(models("nno")))
    living.give_up()
    assert (state_of(_front(living)), living.version) == (before, 0)
    step = Renaming("a", "A")
    expected = copy(models("0"))
    apply(expected, step)
    _change(living, step)
    assert state_of(_front(living)) == state_of(expected)
    living.catch_up()
    _change(living, Renaming("A", "a"))
    assert state_of(_front(living)) == before


def test_another_model_can_take_its_place(things: Draw, models: Models) -> None:
    living = LivingModel(copy(models("nno")), 0)
    other = copy(models("nno"))
    apply(other, Forgetting("a"))
    living.replace(other)
    living.publish(1)
    for label in ("x", "y"):
        _change(living, Lesson(things(7, 2), [label] * 2))
        with living.reading() as (model, _):
            assert "a" not in model.classes_
            assert label in model.classes_
