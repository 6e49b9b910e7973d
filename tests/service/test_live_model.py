"""The live model: readers never wait, never fail, and see one version at a time."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from numpy.typing import NDArray

from openworld import NearestClassMean, OpenWorldRecognizer
from openworld.recognition.adaptive.metric import Whitening
from openworld.service.events import ForgetEvent, LearnEvent, RenameEvent
from openworld.service.live_model import LiveModel, ModelChange, apply_change, check_serves, copy
from openworld.service.validation import Refused

Draw = Callable[..., NDArray[np.float32]]
Models = Callable[[str], Any]
NOTHING = np.empty((0, 0), dtype=np.float32)


def _learn(X: NDArray[np.float32], labels: list[str]) -> ModelChange:
    return LearnEvent([], labels).change_of(X)


def _rename(old: str, new: str) -> ModelChange:
    return RenameEvent(old, new).change_of(NOTHING)


def _forget(label: str) -> ModelChange:
    return ForgetEvent(label).change_of(NOTHING)


def _change(live: LiveModel, change: ModelChange) -> None:
    live.prepare([change])
    live.publish(live.version + 1)


def _front(live: LiveModel) -> Any:
    with live.reading() as (model, _):
        return model


@pytest.mark.parametrize("recognizer", ["nno", "0", "0.1"])
def test_every_answer_is_that_of_the_version_it_names(recognizer: str, things: Draw, models: Models) -> None:
    base = copy(models(recognizer))
    steps: list[ModelChange] = [
        _learn(things(kind, 3, seed), [f"k{kind}"] * 3) for seed in range(2) for kind in range(3, 7)
    ]
    steps[3:3] = [_rename("k4", "z"), _forget("k5")]
    probe = np.vstack([things(kind, 2, 50) for kind in range(12)])
    expected, model = [base.decision_function(probe)], copy(base)
    for step in steps:
        apply_change(model, step)
        expected.append(model.decision_function(probe))

    live = LiveModel(base, 0)
    done, failures = threading.Event(), []
    seen: list[list[int]] = [[], [], []]

    def read(versions: list[int]) -> None:
        while not done.is_set() or not versions:
            with live.reading() as (model, version):
                if not np.array_equal(model.decision_function(probe), expected[version]):
                    failures.append(version)
            versions.append(version)

    readers = [threading.Thread(target=read, args=(versions,)) for versions in seen]
    for reader in readers:
        reader.start()
    for step in steps:
        _change(live, step)
    done.set()
    for reader in readers:
        reader.join()
    assert failures == []
    assert live.version == len(steps)
    for versions in seen:
        assert versions == sorted(versions)


def test_a_reader_keeps_its_version_while_others_come(
    things: Draw, models: Models, state_of: Callable[[Any], Any]
) -> None:
    live = LiveModel(copy(models("nno")), 0)
    with live.reading() as (old, version):
        before = state_of(old)
        _change(live, _learn(things(5, 3), ["new"] * 3))
        with live.reading() as (new, newer):
            assert (version, newer) == (0, 1)
            assert "new" in new.classes_
        assert state_of(old) == before
    live.catch_up()
    _change(live, _learn(things(6, 3), ["newer"] * 3))
    with live.reading() as (model, _):
        assert {"new", "newer"} <= set(model.classes_)


def test_the_second_change_waits_for_the_readers_of_the_copy_it_needs(things: Draw, models: Models) -> None:
    live = LiveModel(copy(models("nno")), 0)
    second = threading.Thread(target=_change, args=(live, _learn(things(6, 3), ["newer"] * 3)))
    with live.reading() as (old, _):
        _change(live, _learn(things(5, 3), ["new"] * 3))
        second.start()
        with live.reading() as (_, version):  # other readers do not wait
            assert version == 1
        assert "new" not in old.classes_
    second.join()
    assert live.version == 2


def test_what_is_refused_or_discarded_leaves_no_trace(
    things: Draw, models: Models, state_of: Callable[[Any], Any]
) -> None:
    live = LiveModel(copy(models("0")), 0)
    before = state_of(_front(live))
    with pytest.raises(Refused):
        live.prepare([_learn(things(5, 3), ["new"] * 3), _forget("nothing")])
    live.prepare([_learn(things(6, 3), ["other"] * 3)])
    live.discard()
    live.replace(copy(models("nno")))
    live.discard()
    assert (state_of(_front(live)), live.version) == (before, 0)
    step = _rename("a", "A")
    expected = copy(models("0"))
    apply_change(expected, step)
    _change(live, step)
    assert state_of(_front(live)) == state_of(expected)
    live.catch_up()
    _change(live, _rename("A", "a"))
    assert state_of(_front(live)) == before


def test_another_model_can_take_its_place(things: Draw, models: Models) -> None:
    live = LiveModel(copy(models("nno")), 0)
    other = copy(models("nno"))
    apply_change(other, _forget("a"))
    live.replace(other)
    live.publish(1)
    for label in ("x", "y"):
        _change(live, _learn(things(7, 2), [label] * 2))
        with live.reading() as (model, _):
            assert "a" not in model.classes_
            assert label in model.classes_


def test_only_models_that_can_answer_unknown_and_know_names_are_served(things: Draw) -> None:
    X, y = np.vstack([things(0, 3), things(1, 3)]), np.repeat(["a", "b"], 3)
    with pytest.raises(Refused, match="NearestClassMean cannot be served"):
        check_serves(NearestClassMean().fit(X, y))


@pytest.mark.parametrize("recognizer", ["nno", "0", "0.1"])
def test_changes_are_taken_back_without_a_copy_as_far_as_memory_allows(
    recognizer: str, things: Draw, models: Models, state_of: Callable[[Any], Any]
) -> None:
    live = LiveModel(copy(models(recognizer)), 0)
    states = [state_of(_front(live))]
    for change in (_learn(things(5, 3), ["new"] * 3), _forget("a"), _rename("b", "B")):
        _change(live, change)
        states.append(state_of(_front(live)))
    assert live.can_step_back(3)
    assert not live.can_step_back(4)
    live.prepare([_rename("new", "newer")], back=2)
    live.publish(4)
    assert state_of(_front(live)) != states[1]
    for version, expected in ((5, states[1]), (6, states[0])):
        live.prepare([], back=1)
        live.publish(version)
        assert state_of(_front(live)) == expected
    live.catch_up()
    small = LiveModel(copy(models(recognizer)), 0, undo_bytes=0)  # two steps are always kept
    for label in "xyz":
        _change(small, _learn(things(5, 3), [label] * 3))
    assert small.can_step_back(2)
    assert not small.can_step_back(3)


def test_the_changes_given_with_a_model_can_be_taken_back(
    things: Draw, models: Models, state_of: Callable[[Any], Any]
) -> None:
    before = state_of(copy(models("0.1")))
    changes = [_learn(things(5, 3), ["new"] * 3), _forget("a")]
    live = LiveModel(copy(models("0.1")), 2, changes)
    after = state_of(_front(live))
    live.replace(copy(models("0.1")), changes)
    live.publish(3)
    assert state_of(_front(live)) == after
    for version in (4, 5):  # once in each copy
        live.prepare([], back=2)
        live.publish(version)
        assert state_of(_front(live)) == before
        live.prepare(changes)
        live.publish(version)


def test_a_refresh_is_computed_once_for_both_copies(
    things: Draw, models: Models, state_of: Callable[[Any], Any]
) -> None:
    live = LiveModel(copy(models("0")), 0)
    with patch.object(Whitening, "of", wraps=Whitening.of) as computed:
        _change(live, _learn(things(5, 3), ["new"] * 3))
        live.catch_up()
    assert computed.call_count == 1
    states = [state_of(_front(live))]
    live.prepare([])
    live.publish(2)
    assert [state_of(_front(live))] == states


def test_several_changes_in_a_row_are_refreshed_once_and_are_the_same_to_the_last_bit(
    things: Draw, models: Models, state_of: Callable[[Any], Any]
) -> None:
    changes = [_learn(things(kind, 3), [f"k{kind}"] * 3) for kind in (3, 4, 5)]
    one_by_one, live = copy(models("0")), LiveModel(copy(models("0")), 0)
    with patch.object(Whitening, "of", wraps=Whitening.of) as computed:
        live.prepare(changes)
    assert computed.call_count == 1
    live.publish(3)
    states = [state_of(one_by_one)]
    for change in changes:
        apply_change(one_by_one, change)
        states.append(state_of(one_by_one))
    assert state_of(_front(live)) == states[3]
    for n in (1, 2, 3):  # states that were not refreshed as they were passed
        live.prepare([], back=1)
        live.publish(3 + n)
        assert state_of(_front(live)) == states[3 - n]
    # A name keeps what was computed before it, in the order of the former names.
    renamed = [changes[0], _rename("k3", "0 first"), changes[1], _rename("k4", "00 first")]
    live.prepare(renamed)
    live.publish(7)
    base = copy(models("0"))
    for change in renamed:
        apply_change(base, change)
    assert state_of(_front(live)) == state_of(base)


def test_small_changes_of_a_large_model_take_little_memory_to_undo() -> None:
    n_features = 600
    random = np.random.default_rng(0)
    X, y = random.standard_normal((40, n_features)), np.repeat(["a", "b", "c", "d"], 10)
    model = OpenWorldRecognizer(n_lifted=0, refresh_growth=100.0).fit(X, y)
    n_steps = {}
    for n in (2, 100):
        live = LiveModel(copy(model), 0, undo_bytes=2 * 4 * 8 * n_features**2)
        for i in range(12):
            _change(live, _learn(random.standard_normal((n, n_features), np.float32), [f"new {i}"] * n))
        n_steps[n] = max(k for k in range(13) if live.can_step_back(k))
    assert n_steps[2] == 12
    assert 2 <= n_steps[100] < 6


@pytest.mark.skipif(sys.platform != "linux", reason="only there have threads priorities of their own")
def test_learning_has_a_lower_priority_than_recognition(things: Draw, models: Models) -> None:
    live, found = LiveModel(models("0.1"), 0), []
    learn = _learn(things(3, 3), ["d"] * 3)

    def apply(model: Any) -> None:
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        learn.apply(model)

    _change(live, ModelChange(apply, learn.classes))
    live.catch_up()
    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert found == [min(own + 10, 19)] * 2
