"""Steps on a model: live, replayed, or continued from a snapshot, the model is the same to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from openworld import NearestClassMean
from openworld.service.acts import Forgetting, Lesson, Merging, Renaming, Step, apply, step_of
from openworld.service.model_bytes import check_serves, copy
from openworld.service.results import Refused
from openworld.store.log import Entry

Draw = Callable[..., NDArray[np.float32]]
LABELS = st.sampled_from(["a", "b", "c", "d", "é", "a longer name"])

steps = st.one_of(
    st.tuples(st.just("learn"), st.integers(0, 11), st.integers(1, 6), LABELS, st.booleans()),
    st.tuples(st.just("rename"), LABELS, LABELS),
    st.tuples(st.just("merge"), st.lists(LABELS, min_size=1, max_size=3), LABELS),
    st.tuples(st.just("forget"), LABELS),
)


def _step(drawn: tuple[Any, ...], seed: int, things: Draw) -> Step:
    match drawn:
        case ("learn", kind, n, label, accepted):
            return Lesson(things(kind, n, seed), [label] * n, accepted)
        case ("rename", old, new):
            return Renaming(old, new)
        case ("merge", labels, into):
            return Merging(labels, into)
        case (_, label):
            return Forgetting(label)
    raise AssertionError


@pytest.mark.parametrize("recognizer", ["nno", "0", "0.1"])
@settings(max_examples=20)
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
        step = _step(drawn, seed, things)
        before = deepcopy(live)
        try:
            apply(live, step)
        except Refused:
            live, restored = before, deepcopy(before)
            continue
        if through_a_file:
            restored = copy(restored)
        apply(restored, step)
        assert state_of(restored) == state_of(live)
        probe = things(seed % 12, 5, 99)
        assert np.array_equal(restored.decision_function(probe), live.decision_function(probe))


def test_steps_are_read_from_the_log(things: Draw) -> None:
    X = {1: things(1)[0], 2: things(2)[0]}

    def read(kind: str, **payload: Any) -> Step:
        entry = Entry(1, datetime.now(UTC), "me", kind, payload, "", None, 1)
        return step_of(entry, lambda ids: np.array([X[i] for i in ids]))

    learn = read("learn", samples=[2, 1], labels=["b", "a"])
    assert isinstance(learn, Lesson)
    assert (learn.X.tolist(), learn.labels) == ([X[2].tolist(), X[1].tolist()], ["b", "a"])
    accept = read("accept", samples=[1, 2], label="a")
    assert isinstance(accept, Lesson)
    assert (accept.accepted, accept.labels) == (True, ["a", "a"])
    assert read("rename", old="a", new="b") == Renaming("a", "b")
    assert read("merge", labels=["a", "b"], into="b") == Merging(["a", "b"], "b")
    assert read("forget", label="a") == Forgetting("a")
    with pytest.raises(ValueError, match="does not change"):
        read("describe", label="a", text="")


def test_tau_moves_a_tenth_of_the_way_to_a_sample_that_is_still_rejected(
    models: Callable[[str], Any],
) -> None:
    model = models("nno")
    far = model.statistics_.mean("a")[np.newaxis] + np.array([26.0, 0, 0, 0])
    apply(model, Lesson(far, ["a"], accepted=True))
    # 12 samples and this one: the mean has moved by 26 / 13 = 2, so it lies 24 away, and tau was 3
    assert model.tau_ == pytest.approx(3 + 0.1 * (24 - 3))
    near = model.statistics_.mean("b")[np.newaxis]
    tau = model.tau_
    apply(model, Lesson(near, ["b"], accepted=True))
    assert model.tau_ == tau


def test_a_step_that_cannot_be_done_is_refused_with_the_reason(
    things: Draw, models: Callable[[str], Any]
) -> None:
    for step, reason in (
        (Lesson(things(1), ["unknown"]), "unknown"),
        (Renaming("nothing", "x"), "nothing"),
        (Renaming("a", "b"), "already"),
        (Merging(["a", "b"], "c"), "at least 2"),
        (Lesson(np.zeros((1, 7)), ["a"]), "features"),
    ):
        with pytest.raises(Refused, match=reason):
            apply(models("0"), step)


def test_only_models_that_can_answer_unknown_and_know_names_are_served(things: Draw) -> None:
    X, y = np.vstack([things(0, 3), things(1, 3)]), np.repeat(["a", "b"], 3)
    with pytest.raises(Refused, match="NearestClassMean cannot be served"):
        check_serves(NearestClassMean().fit(X, y))
