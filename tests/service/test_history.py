"""Which acts are in force: hand-worked logs, and a naive reference over random ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from openworld.service.history import (
    LEARNING,
    Line,
    chain,
    in_force,
    last_act,
    last_undo,
    learnt,
    link,
    undone,
)


def _log(*lines: tuple[str, int | None]) -> list[Line]:
    """Make a log by Ann: kind, and what is undone or gone back to."""
    return [
        Line(i, kind, "ann", str(i), about if kind in ("undo", "redo") else None, about or 0)
        for i, (kind, about) in enumerate(lines, start=1)
    ]


LABEL, DISMISS = ("label", None), ("dismiss", None)


def test_acts_that_are_not_undone_are_in_force() -> None:
    lines = _log(LABEL, DISMISS, LABEL, ("undo", 1))
    assert (learnt(lines), in_force(lines), undone(lines)) == ([3], [2, 3], {1: 4})


def test_an_undo_that_is_undone_undoes_nothing_and_the_act_keeps_its_place() -> None:
    lines = _log(LABEL, LABEL, ("undo", 1), ("redo", 3))
    assert (learnt(lines), undone(lines)) == ([1, 2], {3: 4})
    assert learnt([*lines, Line(5, "undo", "ann", "5", 1, 0)]) == [2]


def test_going_back_brings_the_acts_of_then_whatever_was_undone_before() -> None:
    lines = _log(LABEL, LABEL, LABEL, ("undo", 3), ("activate", 3))
    assert learnt(lines) == [1, 2, 3]
    assert learnt(_log(LABEL, LABEL, ("activate", 1), LABEL)) == [1, 4]
    assert learnt(_log(LABEL, ("activate", 0))) == []


def test_what_happens_after_going_back_counts_from_there() -> None:
    lines = _log(LABEL, LABEL, ("activate", 1), ("undo", 1))
    assert learnt(lines) == []
    lines = _log(LABEL, LABEL, ("activate", 1), ("undo", 3))
    assert learnt(lines) == [1, 2]
    lines = _log(LABEL, LABEL, ("activate", 1), LABEL, ("activate", 2), ("undo", 5))
    assert learnt(lines) == [1, 4]


def test_going_back_does_not_touch_dismissals() -> None:
    assert in_force(_log(LABEL, DISMISS, ("activate", 0))) == [2]


def test_undo_and_redo_walk_back_and_forth() -> None:
    lines = _log(LABEL, DISMISS)
    assert (last_act(lines, "ann"), last_undo(lines, "ann")) == (2, None)
    assert last_act(lines, "bob") is None
    lines = _log(LABEL, DISMISS, ("undo", 2), ("undo", 1))
    assert (last_act(lines, "ann"), last_undo(lines, "ann")) == (None, 4)
    lines = _log(LABEL, DISMISS, ("undo", 2), ("undo", 1), ("redo", 4))
    assert (last_act(lines, "ann"), last_undo(lines, "ann")) == (1, 3)
    lines = _log(LABEL, DISMISS, ("undo", 2), LABEL)
    assert (last_act(lines, "ann"), last_undo(lines, "ann")) == (4, None)


def test_a_chain_tells_histories_apart_by_content_and_order() -> None:
    hashes = chain("base", ["1", "2"])
    assert hashes == ["base", link("base", "1"), link(link("base", "1"), "2")]
    assert len({*hashes, *chain("base", ["2", "1"]), *chain("other", ["1", "2"])}) == 8


def _naive(lines: list[Line]) -> list[int]:
    """Fold the log in its plain order, with the acts of every earlier moment worked out beforehand."""
    by = undone(lines)
    moments: dict[int, list[int]] = {0: []}
    for end in range(1, len(lines)):
        moments[lines[end - 1].id] = _naive(lines[:end])
    acts: list[int] = []
    for line in lines:
        if line.id in by:
            continue
        if line.kind in LEARNING:
            acts.append(line.id)
        elif line.kind == "activate":
            acts = list(moments[line.target])
        elif line.kind == "undo" and line.undoes in acts:
            acts.remove(line.undoes)
    return acts


@st.composite
def logs(draw: st.DrawFn) -> list[Line]:
    lines: list[Line] = []
    for i in range(1, draw(st.integers(1, 9)) + 1):
        by = undone(lines)
        options: list[tuple[str, int | None]] = [LABEL, DISMISS]
        options += [("activate", line.id) for line in lines] + [("activate", 0)]
        options += [("undo", act) for act in in_force(lines)]
        options += [("undo", line.id) for line in lines if line.kind == "activate" and line.id not in by]
        options += [("redo", line.id) for line in lines if line.kind == "undo" and line.id not in by]
        kind, about = draw(st.sampled_from(options))
        lines.append(Line(i, kind, "ann", str(i), about if kind in ("undo", "redo") else None, about or 0))
    return lines


@given(logs())
def test_any_log_agrees_with_the_naive_reading(lines: list[Line]) -> None:
    assert learnt(lines) == _naive(lines)
    assert learnt(lines) == sorted(set(learnt(lines)))
