"""Undoing, doing again, going back to a version; and what happened when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlalchemy import Connection

from openworld.service.history import UNDOABLE, Line, in_force, last_act, last_undo, learnt, undone
from openworld.service.labelling import Labelling, class_counts
from openworld.service.model_bytes import from_bytes
from openworld.service.results import Comparison, Event, NotFound, Outcome, Refused, Version
from openworld.service.scribe import Act, Scribe
from openworld.service.validation import check_name
from openworld.store import clusters, log, people, samples
from openworld.store.log import Entry


class Reviser:
    """The acts on acts."""

    def __init__(self, scribe: Scribe) -> None:
        self._scribe, self._database = scribe, scribe.database

    def undo(self, who: str, event_id: int | None) -> Outcome:
        """Undo an act, by default the person's last one."""
        with self._scribe.acting():
            lines = self._scribe.lines
            wanted = last_act(lines, who) if event_id is None else event_id
            if wanted is None:
                raise NotFound("There is nothing to undo.")
            line = self._line(wanted)
            if line.kind == "undo":
                return self.redo(who, wanted)
            going_back = line.kind == "activate" and line.id not in undone(lines)
            if line.id not in set(in_force(lines)) and not going_back:
                raise Refused(f"Act {line.id} is not in force, so it cannot be undone.")
            return self._revise("undo", who, line)

    def redo(self, who: str, event_id: int | None) -> Outcome:
        """Take back an undo, by default the person's last one."""
        with self._scribe.acting():
            by = undone(self._scribe.lines)
            wanted = last_undo(self._scribe.lines, who) if event_id is None else event_id
            if wanted is None:
                raise NotFound("There is nothing to do again.")
            if self._line(wanted).kind in UNDOABLE:  # the undone act itself was named
                wanted = by.get(wanted, wanted)
            line = self._line(wanted)
            if line.kind != "undo" or line.id in by:
                raise Refused(f"Act {wanted} is not undone, so it cannot be done again.")
            return self._revise("redo", who, line)

    def activate(self, version: int, who: str) -> Outcome:
        """Go back to the model of a version."""
        with self._scribe.acting():
            event = self._version(version).event_id or 0
            payload = {"version": version, "event": event}
            act = Act(check_name(who, "A person"), "activate", payload, also=self._relabel)
            return self._scribe.revise(act, event)

    def _revise(self, kind: str, who: str, line: Line) -> Outcome:
        payload = {"of": self._line(line.undoes).kind if line.undoes is not None else line.kind}
        moved = line if line.undoes is None else self._line(line.undoes)

        def also(connection: Connection, entry: Entry) -> None:
            self._relabel(connection, entry)
            if moved.kind in ("merge_clusters", "split_cluster"):
                change = next(log.entries(connection, [moved.id])).payload
                if kind == "undo":
                    clusters.move_back(connection, change["moved"], change["into"])
                else:
                    for ids in change["moved"].values():
                        clusters.move(connection, ids, change["into"])

        act = Act(check_name(who, "A person"), kind, payload, undoes=line.id, also=also)
        return self._scribe.revise(act)

    def _relabel(self, connection: Connection, entry: Entry) -> None:
        """Give samples and classes the labels and descriptions of the acts that are in force now."""
        acts = in_force([*self._scribe.lines, Line.of(entry)])
        labelling = Labelling.of(log.entries(connection, acts))
        before = samples.marks(connection)
        samples.mark(
            connection,
            {
                i: mark
                for i, mark in labelling.marks.items()
                if before.get(i) != (mark.state, mark.label, mark.event_id)
            },
        )
        samples.release(connection, before.keys() - labelling.marks.keys())
        people.set_descriptions(connection, labelling.descriptions)

    def _line(self, event_id: int) -> Line:
        for line in reversed(self._scribe.lines):
            if line.id == event_id:
                return line
        raise NotFound(f"There is no act {event_id}.")

    # -- what happened ----------------------------------------------------------------------------

    def history(self, before: int | None, limit: int, who: str | None) -> list[Event]:
        """List acts, newest first."""
        with self._database.read() as connection:
            return list(self._events(log.newest(connection, before, limit, who)))

    def export(self) -> Iterator[Event]:
        """Yield all acts, oldest first."""
        with self._database.read() as connection:
            yield from self._events(log.entries_after(connection, 0))

    def _events(self, entries: Iterable[Entry]) -> Iterator[Event]:
        lines = list(self._scribe.lines)
        by, acts = undone(lines), set(in_force(lines))
        for e in entries:
            undoing = None if e.id in acts else by.get(e.id)  # going back to a version outdoes an older undo
            yield Event(e.id, e.at, e.who, e.kind, e.payload, e.undoes, undoing, e.model_version)

    def versions(self, before: int | None, limit: int) -> list[Version]:
        """List versions, newest first."""
        with self._database.read() as connection:
            return log.version_list(connection, before, limit)

    def compare(self, a: int, b: int) -> Comparison:
        """Tell how two versions differ."""
        first, second = self._version(a), self._version(b)
        with self._database.read() as connection:
            base = from_bytes(log.snapshot(connection, log.snapshot_histories(connection)[0])).statistics_
            counts = dict(zip(map(str, base.labels), base.counts.tolist(), strict=True))
            before, after = (
                class_counts(counts, log.entries(connection, self._acts_of(version)))
                for version in (first, second)
            )
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

    def _acts_of(self, version: Version) -> list[int]:
        return learnt([line for line in self._scribe.lines if line.id <= (version.event_id or 0)])

    def _version(self, number: int) -> Version:
        with self._database.read() as connection:
            found = log.version(connection, number)
        if found is None:
            raise NotFound(f"There is no version {number}.")
        return found
