"""Events on a model: live, replayed, or continued from a snapshot, the model is equal to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from openworld.recognition import class_sums
from openworld.service.events import (
    EVENT_KINDS,
    AcceptEvent,
    ForgetEvent,
    LabelEvent,
    LearnEvent,
    MergeEvent,
    RenameEvent,
    event_of,
)
from openworld.service.live_model import ModelChange, apply_change, copy
from openworld.service.settings import WorldSettings
from openworld.service.validation import Refused
from openworld.service.world import World
from openworld.service.world_event import WorldEvent

pytestmark = pytest.mark.filterwarnings("ignore:Too little to calibrate with")
Draw = Callable[..., NDArray[np.float32]]
LABELS = st.sampled_from(["a", "b", "c", "d", "é", "a longer name"])

steps = st.one_of(
    st.tuples(st.just("learn"), st.integers(0, 11), st.integers(1, 6), LABELS, st.booleans()),
    st.tuples(st.just("rename"), LABELS, LABELS),
    st.tuples(st.just("merge"), st.lists(LABELS, min_size=1, max_size=3), LABELS),
    st.tuples(st.just("forget"), LABELS),
)


NOTHING = np.empty((0, 0), dtype=np.float32)


@pytest.fixture(params=[False, True], ids=["small", "large"])
def kept_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the scatter keep some rows apart, as it does where there are many features."""
    if request.param:
        monkeypatch.setattr(class_sums, "_LARGE", 1)
        monkeypatch.setattr(class_sums, "_MOST_ROWS", 8)


def _change(event: WorldEvent, features: NDArray[Any] = NOTHING) -> ModelChange:
    return event.change_of(features)


def _drawn(drawn: tuple[Any, ...], seed: int, things: Draw) -> ModelChange:
    match drawn:
        case ("learn", kind, n, label, accepted):
            event = AcceptEvent([], label) if accepted else LabelEvent([], label)
            return _change(event, things(kind, n, seed))
        case ("rename", old, new):
            return _change(RenameEvent(old, new))
        case ("merge", labels, into):
            return _change(MergeEvent(labels, into))
        case (_, label):
            return _change(ForgetEvent(label))
    raise AssertionError


@pytest.mark.usefixtures("kept_rows")
@pytest.mark.parametrize("recognizer", ["nno", "0", "0.1"])
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=st.lists(st.tuples(steps, st.booleans()), min_size=1, max_size=8))
def test_a_model_that_went_through_files_stays_the_same(
    recognizer: str,
    history: list[tuple[tuple[Any, ...], bool]],
    things: Draw,
    models: Callable[[str], Any],
    state_of: Callable[[Any], Any],
) -> None:
    live = copy(models(recognizer))
    restored = copy(live)
    for seed, (drawn, through_a_file) in enumerate(history):
        change = _drawn(drawn, seed, things)
        before = deepcopy(live)
        try:
            apply_change(live, change)
        except Refused:
            live, restored = before, deepcopy(before)
            continue
        if through_a_file:
            restored = copy(restored)
        apply_change(restored, change)
        assert state_of(restored) == state_of(live)
        probe = things(seed % 12, 5, 99)
        assert np.array_equal(restored.decision_function(probe), live.decision_function(probe))


@pytest.mark.usefixtures("kept_rows")
@pytest.mark.parametrize("recognizer", ["nno", "0", "0.1"])
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=st.lists(st.one_of(steps, st.just(("undo",))), min_size=1, max_size=10))
def test_stepping_back_restores_every_bit(
    recognizer: str,
    history: list[tuple[Any, ...]],
    things: Draw,
    models: Callable[[str], Any],
    state_of: Callable[[Any], Any],
) -> None:
    model, done = copy(models(recognizer)), []
    probe = np.vstack([things(kind, 2, 99) for kind in range(12)])

    def observed() -> Any:
        judged = model.judge(probe)
        return state_of(model), model.decision_function(probe).tobytes(), judged.distances.tobytes()

    def step_back() -> None:
        restore, before = done.pop()
        restore()
        assert observed() == before

    for seed, drawn in enumerate([*history, *history]):
        if drawn != ("undo",):
            change = _drawn(drawn, seed, things)
            done.append((model.restorer(change.classes), observed()))
            try:
                apply_change(model, change)
            except Refused:
                step_back()
        elif done:
            step_back()
    while done:
        step_back()


def test_events_are_read_from_their_kind_and_payload() -> None:
    stored: dict[str, dict[str, Any]] = {
        "learn": {"samples": [2, 1], "labels": ["b", "a"]},
        "label": {"samples": [1, 2], "label": "a"},
        "accept": {"samples": [1], "label": "a"},
        "dismiss": {"samples": [1], "reason": "blurred"},
        "dismiss_unknown": {"samples": [1], "reason": "not a class"},
        "feedback": {
            "samples": [1, 2],
            "labels": ["a", None],
            "answers": ["a", "b"],
            "random": [True, False],
        },
        "describe": {"label": "a", "text": "the first"},
        "rename": {"old": "a", "new": "b"},
        "merge": {"labels": ["a", "b"], "into": "b"},
        "forget": {"label": "a"},
        "objective": {"objective": "recall=0.9"},
        "merge_clusters": {"into": 1, "moved": {"2": [5, 6], "3": [7]}},
        "split_cluster": {"into": 4, "moved": {"1": [5]}},
        "erase": {"samples": [1, 2]},
        "undo": {"of": "label"},
        "redo": {"of": "label"},
        "activate": {"version": 3, "event": 2},
    }
    assert stored.keys() == EVENT_KINDS.keys()
    for kind, payload in stored.items():
        event = event_of(kind, payload)
        assert (type(event), event.kind, event.payload) == (EVENT_KINDS[kind], kind, payload)
        assert event.describe()
    undoable = {kind for kind, event in EVENT_KINDS.items() if event.undoable}
    assert undoable == stored.keys() - {"undo", "redo", "erase"}
    with pytest.raises(ValueError, match="newer version"):
        event_of("telepathy", {})


def test_an_event_without_erased_samples() -> None:
    feedback = event_of(
        "feedback",
        {"samples": [1, 2, 3], "labels": ["a", None, "b"], "answers": ["x", "y", "z"], "random": [True] * 3},
    )
    assert feedback.without(frozenset({2, 9})).payload == {
        "samples": [1, 3],
        "labels": ["a", "b"],
        "answers": ["x", "z"],
        "random": [True, True],
    }
    rename = event_of("rename", {"old": "a", "new": "b"})
    assert rename.without(frozenset({1})) is rename
    assert event_of("label", {"samples": [1], "label": "a"}).without(frozenset({1})).learned == []


def test_tau_moves_a_tenth_of_the_way_to_a_sample_that_is_still_rejected(
    models: Callable[[str], Any],
) -> None:
    model = models("nno")
    far = model.statistics_.mean("a")[np.newaxis] + np.array([26.0, 0, 0, 0])
    apply_change(model, _change(AcceptEvent([1], "a"), far))
    # 12 samples and this one: the mean has moved by 26 / 13 = 2, so it lies 24 away, and tau was 3
    assert model.tau_ == pytest.approx(3 + 0.1 * (24 - 3))
    near = model.statistics_.mean("b")[np.newaxis]
    tau = model.tau_
    apply_change(model, _change(AcceptEvent([2], "b"), near))
    assert model.tau_ == tau


def test_an_event_that_the_model_cannot_take_is_refused_with_the_reason(
    things: Draw, models: Callable[[str], Any]
) -> None:
    for change, reason in (
        (_change(LearnEvent([], ["unknown"]), things(1)), "unknown"),
        (_change(RenameEvent("nothing", "x")), "nothing"),
        (_change(RenameEvent("a", "b")), "already"),
        (_change(LearnEvent([], ["a"]), np.zeros((1, 7))), "features"),
    ):
        with pytest.raises(Refused, match=reason):
            apply_change(models("0"), change)


def test_dismissed_samples_are_known_unknowns_and_undo_takes_that_back(
    tmp_path: Path, things: Draw, models: Callable[[str], Any]
) -> None:
    with World.open(
        f"sqlite:///{tmp_path / 'world.db'}", models("0"), WorldSettings(learn_unknowns=True)
    ) as world:
        probe = np.vstack([things(kind, 3, 99) for kind in range(12)])
        before = world.recognize(probe, remember=False).judgement
        world.recognize(things(7, 25))
        ids = world.pool.ids()
        assert len(ids) > 5
        world.labels.dismiss(ids, "not a class", "ann")
        world.recognize(things(7, 25))
        assert world.pool.count() == 0  # they do not come back
        after = world.recognize(probe, remember=False).judgement
        assert after.threshold != before.threshold
        world.history.undo("ann")
        assert world.recognize(probe, remember=False).judgement.threshold == before.threshold
        assert world.pool.count() == len(ids)


def test_the_history_counts_samples_in_words() -> None:
    assert event_of("label", {"samples": [1], "label": "okapi"}).describe() == "labeled 1 sample as “okapi”"
    assert (
        event_of("label", {"samples": [1, 2], "label": "okapi"}).describe() == "labeled 2 samples as “okapi”"
    )
    assert event_of("erase", {"samples": [1, 2]}).describe() == "erased 2 samples"
