"""The history: listing events and versions, undo, redo, rollback."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from openworld.service.event_log import EventLog
from openworld.service.events import RedoEvent, RollbackEvent, UndoEvent
from openworld.service.live_model import from_bytes
from openworld.service.replay import (
    can_be_undone,
    events_in_effect,
    last_to_redo,
    last_to_undo,
    model_events,
    undone_by,
)
from openworld.service.validation import NotFound, Refused
from openworld.service.world_event import ClassCounts, EventOutcome
from openworld.store import events
from openworld.store.events import EventRecord
from openworld.store.records import Version


@dataclass(frozen=True)
class HistoryEvent:
    """An event of the log. `undone_by` is the event that undoes it now, if any."""

    id: int
    at: datetime
    who: str
    kind: str
    payload: Mapping[str, Any]
    undoes: int | None
    undone_by: int | None
    model_version: int


@dataclass(frozen=True)
class Comparison:
    """How version `b` differs from version `a`: classes, and how many samples each was learned from."""

    a: int
    b: int
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: Mapping[str, tuple[float, float]]
    same: bool


class History:
    """Lists events and versions; undoes, redoes and rolls back."""

    def __init__(self, log: EventLog) -> None:
        self._log, self._database = log, log.database

    def undo(self, who: str, event_id: int | None = None) -> EventOutcome:
        """Undo an event: by default the person's last one that is not undone."""
        with self._log.exclusive():
            headers = self._log.headers
            wanted = self.next_to_undo(who) if event_id is None else event_id
            if wanted is None:
                raise NotFound("There is nothing to undo.")
            header = self._log.header(wanted)
            if header.kind == UndoEvent.kind:
                return self.redo(who, wanted)
            if wanted not in can_be_undone(headers):
                raise Refused(self._why_not_in_effect(wanted))
            return self._log.append(UndoEvent(of=header.kind), who, undoes=wanted)

    def _why_not_in_effect(self, event_id: int) -> str:
        by = undone_by(self._log.headers).get(event_id)
        if by is None:
            return f"Event {event_id} is not in effect, so it cannot be undone."
        return f"Event {event_id} is undone already, by {self._log.header(by).who} (event {by})."

    def next_to_undo(self, who: str) -> int | None:
        """Return the event that `undo` takes by default."""
        return last_to_undo(self._log.headers, who)

    def next_to_redo(self, who: str) -> int | None:
        """Return the undo that `redo` takes back by default."""
        return last_to_redo(self._log.headers, who)

    def redo(self, who: str, event_id: int | None = None) -> EventOutcome:
        """Take back an undo: by default the person's last one, unless they did something else since.

        `event_id` may be the undo or the event that it undid.
        """
        with self._log.exclusive():
            by = undone_by(self._log.headers)
            wanted = self.next_to_redo(who) if event_id is None else event_id
            if wanted is None:
                raise NotFound("There is nothing to redo.")
            if self._log.header(wanted).event_class.undoable:
                wanted = by.get(wanted, wanted)
            header = self._log.header(wanted)
            if header.kind != UndoEvent.kind or header.id in by:
                raise Refused(f"Event {wanted} is not undone, so it cannot be redone.")
            of = self._log.header(header.undoes or 0).kind
            return self._log.append(RedoEvent(of=of), who, undoes=wanted)

    def rollback(self, version: int, who: str) -> EventOutcome:
        """Return to the model of an earlier version, as a new version; labels follow."""
        with self._log.exclusive():
            event = self._version(version).event_id or 0
            return self._log.append(RollbackEvent(version, event), who)

    def events(
        self, before: int | None = None, limit: int = 100, who: str | None = None
    ) -> list[HistoryEvent]:
        """List events, newest first; give the id of the last one as `before` to continue."""
        with self._database.read() as connection:
            return list(self._as_results(events.newest(connection, before, limit, who)))

    def originals(self, found: Iterable[HistoryEvent]) -> dict[int, HistoryEvent]:
        """Return, for each undo and redo among some events, the event that it undid or redid."""
        about = {event.id: event.undoes for event in found if event.undoes is not None}
        with self._database.read() as connection:  # the log may not have the newest events of other servers
            undone = {one.id: one for one in events.read(connection, sorted(set(about.values())))}
            about = {event_id: undone[target].undoes or target for event_id, target in about.items()}
            records = events.read(connection, sorted(set(about.values())))
            originals = {event.id: event for event in self._as_results(records)}
        return {event_id: originals[original] for event_id, original in about.items()}

    def export(self) -> Iterator[HistoryEvent]:
        """Yield all events, oldest first."""
        with self._database.read() as connection:
            yield from self._as_results(events.read_after(connection, 0))

    def _as_results(self, records: Iterable[EventRecord]) -> Iterator[HistoryEvent]:
        headers = list(self._log.headers)
        by, in_effect = undone_by(headers), set(events_in_effect(headers))
        for r in records:
            undoing = None if r.id in in_effect else by.get(r.id)  # a rollback may bring back what was undone
            yield HistoryEvent(r.id, r.at, r.who, r.kind, r.payload, r.undoes, undoing, r.model_version)

    def versions(self, before: int | None = None, limit: int = 100) -> list[Version]:
        """List versions of the model, newest first."""
        with self._database.read() as connection:
            return events.version_list(connection, before, limit)

    def compare(self, a: int, b: int) -> Comparison:
        """Return which classes and counts differ between two versions."""
        first, second = self._version(a), self._version(b)
        before, after = self._counts(first), self._counts(second)
        return Comparison(
            a,
            b,
            tuple(sorted(after.keys() - before.keys())),
            tuple(sorted(before.keys() - after.keys())),
            {
                label: (before[label], after[label])
                for label in sorted(before.keys() & after.keys())
                if before[label] != after[label]
            },
            first.history == second.history,
        )

    def _counts(self, version: Version) -> ClassCounts:
        """Replay the counts of a version."""
        ids = model_events([h for h in self._log.headers if h.id <= (version.event_id or 0)])
        with self._database.read() as connection:
            first_model = from_bytes(events.snapshot(connection, events.snapshot_histories(connection)[0]))
            statistics = first_model.statistics_
            counts = ClassCounts(zip(map(str, statistics.labels), statistics.counts.tolist(), strict=True))
            for record in events.read(connection, ids):
                self._log.event(record).apply_to_labels(counts, record)
        return counts

    def _version(self, number: int) -> Version:
        with self._database.read() as connection:
            found = events.version(connection, number)
        if found is None:
            raise NotFound(f"There is no version {number}.")
        return found
