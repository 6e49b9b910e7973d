"""Moving single samples from one class to another, or back to the pool."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from openworld.service.event_log import EventOutcome
from openworld.service.events import FeedbackEvent, LabelEvent, LearnEvent, WorldEvent
from openworld.service.validation import Refused
from openworld.service.world import World
from openworld.store import events
from openworld.store.labels import labeled_with


def relabel(
    world: World, sample_ids: Sequence[int], label: str | None, who: str, *, admin: bool
) -> EventOutcome:
    """Give labeled samples another label; None returns them to the pool. What is so already is skipped.

    The events that labeled them are undone and appended again without these samples, so that the model is
    as if it had never learned them so. Only an admin may do this to what others labeled. Refused where a
    later event builds on one of these, such as a new name of the class that it made.
    """
    log = world.event_log
    with log.exclusive():
        name = None if label is None else world.labels.check_label(label)
        found = [s for s in world.labels.find(sample_ids, who) if s.state == "labeled" and s.label != name]
        moved = {sample.id for sample in found}
        if not moved:
            return EventOutcome(None, LabelEvent.kind, world.model.version)
        others = sorted({str(sample.who) for sample in found} - {who})
        if others and not admin:
            raise Refused(f"{others[0]} labeled some of these samples: only an admin may change that.")
        with world.event_log.database.read() as connection:
            given = labeled_with(connection, sorted(moved))
            records = {record.id: record for record in events.read(connection, sorted(given))}
        rest = [_without(log.event(records[i]), moved, given[i]) for i in sorted(given)]
        outcome = _undo_all(world, sorted(given, reverse=True), who)
        for event in rest:
            if event is not None:
                outcome = log.append(event, who)
        return outcome if name is None else world.labels.label(sorted(moved), name, who)


def _undo_all(world: World, event_ids: Sequence[int], who: str) -> EventOutcome:
    """Undo some events, or none: a later event may build on one of them, as a new name on the first label."""
    undone: list[int] = []
    try:
        for event_id in event_ids:
            outcome = world.history.undo(who, event_id)
            undone.append(event_id)
    except Refused:
        for event_id in reversed(undone):
            world.history.redo(who, event_id)
        raise
    return outcome


def _without(event: WorldEvent, moved: Collection[int], labels: Mapping[int, str]) -> WorldEvent | None:
    """Return an event without some samples, its labels as they are now; None if no sample is left."""
    if isinstance(event, LabelEvent):
        samples = [i for i in event.samples if i not in moved]
        return replace(event, samples=samples, label=labels[samples[0]]) if samples else None
    if not isinstance(event, LearnEvent | FeedbackEvent):
        raise Refused(f"Samples of an event of kind {event.kind!r} cannot be moved.")
    rows = [row for row, i in enumerate(event.samples) if i not in moved]
    if not rows:
        return None
    samples = [event.samples[row] for row in rows]
    if isinstance(event, LearnEvent):
        return LearnEvent(samples, [labels[i] for i in samples])
    return FeedbackEvent(
        samples,
        [labels.get(i, event.labels[row]) for row, i in zip(rows, samples, strict=True)],
        [event.answers[row] for row in rows],
        [event.random[row] for row in rows],
    )
