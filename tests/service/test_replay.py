"""Which events are in effect: hand-worked logs, and a naive reference over random ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from openworld.service.events import EVENT_KINDS
from openworld.service.replay import (
    EventHeader,
    events_in_effect,
    extend_hash,
    history_hashes,
    last_to_redo,
    last_to_undo,
    model_events,
    undone_by,
)


def _log(*lines: tuple[str, int | None]) -> list[EventHeader]:
    """Make a log by Ann: kind, and what is undone or gone back to."""
    return [
        EventHeader(i, kind, "ann", str(i), about if kind in ("undo", "redo") else None, about or 0)
        for i, (kind, about) in enumerate(lines, start=1)
    ]


LABEL, DISMISS = ("label", None), ("dismiss", None)


def test_events_that_are_not_undone_are_in_effect() -> None:
    headers = _log(LABEL, DISMISS, LABEL, ("undo", 1))
    assert (model_events(headers), events_in_effect(headers), undone_by(headers)) == ([3], [2, 3], {1: 4})


def test_an_undo_that_is_undone_undoes_nothing_and_the_event_keeps_its_place() -> None:
    headers = _log(LABEL, LABEL, ("undo", 1), ("redo", 3))
    assert (model_events(headers), undone_by(headers)) == ([1, 2], {3: 4})
    assert model_events([*headers, EventHeader(5, "undo", "ann", "5", 1, 0)]) == [2]


def test_a_rollback_brings_back_the_events_of_then_whatever_was_undone_before() -> None:
    headers = _log(LABEL, LABEL, LABEL, ("undo", 3), ("activate", 3))
    assert model_events(headers) == [1, 2, 3]
    assert model_events(_log(LABEL, LABEL, ("activate", 1), LABEL)) == [1, 4]
    assert model_events(_log(LABEL, ("activate", 0))) == []


def test_what_happens_after_a_rollback_counts_from_there() -> None:
    headers = _log(LABEL, LABEL, ("activate", 1), ("undo", 1))
    assert model_events(headers) == []
    headers = _log(LABEL, LABEL, ("activate", 1), ("undo", 3))
    assert model_events(headers) == [1, 2]
    headers = _log(LABEL, LABEL, ("activate", 1), LABEL, ("activate", 2), ("undo", 5))
    assert model_events(headers) == [1, 4]


def test_a_rollback_does_not_touch_dismissals() -> None:
    assert events_in_effect(_log(LABEL, DISMISS, ("activate", 0))) == [2]


def test_undo_and_redo_walk_back_and_forth() -> None:
    headers = _log(LABEL, DISMISS)
    assert (last_to_undo(headers, "ann"), last_to_redo(headers, "ann")) == (2, None)
    assert last_to_undo(headers, "bob") is None
    headers = _log(LABEL, DISMISS, ("undo", 2), ("undo", 1))
    assert (last_to_undo(headers, "ann"), last_to_redo(headers, "ann")) == (None, 4)
    headers = _log(LABEL, DISMISS, ("undo", 2), ("undo", 1), ("redo", 4))
    assert (last_to_undo(headers, "ann"), last_to_redo(headers, "ann")) == (1, 3)
    headers = _log(LABEL, DISMISS, ("undo", 2), LABEL)
    assert (last_to_undo(headers, "ann"), last_to_redo(headers, "ann")) == (4, None)


def test_hashes_tell_histories_apart_by_content_and_order() -> None:
    hashes = history_hashes("base", ["1", "2"])
    assert hashes == ["base", extend_hash("base", "1"), extend_hash(extend_hash("base", "1"), "2")]
    assert len({*hashes, *history_hashes("base", ["2", "1"]), *history_hashes("other", ["1", "2"])}) == 8


def _naive(headers: list[EventHeader]) -> list[int]:
    """Fold the log in its plain order, with the events of every earlier moment worked out beforehand."""
    by = undone_by(headers)
    moments: dict[int, list[int]] = {0: []}
    for end in range(1, len(headers)):
        moments[headers[end - 1].id] = _naive(headers[:end])
    ids: list[int] = []
    for header in headers:
        if header.id in by:
            continue
        if EVENT_KINDS[header.kind].changes_model:
            ids.append(header.id)
        elif header.kind == "activate":
            ids = list(moments[header.target])
        elif header.kind == "undo" and header.undoes in ids:
            ids.remove(header.undoes)
    return ids


@st.composite
def logs(draw: st.DrawFn) -> list[EventHeader]:
    headers: list[EventHeader] = []
    for i in range(1, draw(st.integers(1, 9)) + 1):
        by = undone_by(headers)
        options: list[tuple[str, int | None]] = [LABEL, DISMISS]
        options += [("activate", header.id) for header in headers] + [("activate", 0)]
        options += [("undo", event) for event in events_in_effect(headers)]
        options += [
            ("undo", header.id) for header in headers if header.kind == "activate" and header.id not in by
        ]
        options += [
            ("redo", header.id) for header in headers if header.kind == "undo" and header.id not in by
        ]
        kind, about = draw(st.sampled_from(options))
        headers.append(
            EventHeader(i, kind, "ann", str(i), about if kind in ("undo", "redo") else None, about or 0)
        )
    return headers


@given(logs())
def test_any_log_agrees_with_the_naive_reading(headers: list[EventHeader]) -> None:
    assert model_events(headers) == _naive(headers)
    assert model_events(headers) == sorted(set(model_events(headers)))
