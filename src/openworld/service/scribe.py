"""The scribe: does acts one at a time, writes them down, and makes the model that the log tells of."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from openworld.model_file import dumps
from openworld.service.acts import Model, Step, apply, step_of
from openworld.service.changes import Changes
from openworld.service.history import Line, chain, learnt, link
from openworld.service.living_model import LivingModel
from openworld.service.model_bytes import from_bytes
from openworld.service.results import Conflict, Outcome, Refused
from openworld.service.settings import WorldSettings
from openworld.store import Database, log
from openworld.store.log import Entry
from openworld.store.samples import features_of

Payload = Mapping[str, Any]

_WORTH = 10  # times as long as a snapshot takes may learning again take
_AT_ONCE = "Another server acted at the same moment: try again."


@dataclass(frozen=True)
class Act:
    """An act to be done.

    Attributes
    ----------
    payload : mapping, or function of a connection
        A function where it is only known inside the transaction.
    samples : int
        How many samples it deals with.
    undoes : int, optional
        The act that this one undoes.
    also : function, optional
        What else to write in the transaction of the act.
    """

    who: str
    kind: str
    payload: Payload | Callable[[Connection], Payload]
    samples: int = 0
    undoes: int | None = None
    also: Callable[[Connection, Entry], None] | None = None


@dataclass(frozen=True)
class _Changed:
    """What an act made of the model: its labels before, and the model after.

    `history` is, where it is not just one act longer, the acts in force and the hashes of their beginnings.
    """

    before: set[str]
    model: Model
    history: tuple[list[int], list[str]] | None = None


class Scribe:
    """Keeps model and log together.

    An act is first tried on the copy of the model that nobody reads, so that one which cannot be done is
    never written; then written in one transaction; then shown. After a crash at any moment the log tells
    what the model is.

    Attributes
    ----------
    living : LivingModel
    lines : list of Line
        The whole log in short.
    beside : callable, optional
        Writes more in the transaction of an act, given its outcome; set by whoever has the turn.
    """

    def __init__(self, database: Database, settings: WorldSettings, changes: Changes) -> None:
        self.database = database
        self._settings, self._changes = settings, changes
        self._turn = threading.RLock()
        self._acting = False
        self.beside: Callable[[Connection, Outcome], None] | None = None
        with database.read() as connection:
            self.lines = [Line.of(entry) for entry in log.entries_after(connection, 0)]
            version = log.version_list(connection, limit=1)[0].id
            self._base = log.snapshot_histories(connection)[0]
        self._acts = learnt(self.lines)
        self._hashes = _chain(self._base, self.lines, self._acts)
        self._since_snapshot, self._cost, self._snapshot_seconds = 0, 0.0, 0.0
        self.living = LivingModel(self._rebuilt(self._acts, self._hashes), version)

    # -- acts -------------------------------------------------------------------------------------

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Give one thread of one server the turn to check what an act relies on and to do the act."""
        with self._turn:
            if self._acting:  # an act that is part of another
                yield
                return
            with self.database.turn("act"):
                self._follow()
                self._acting = True
                try:
                    yield
                finally:
                    self._acting = False

    def follow(self) -> bool:
        """Take in what other servers have done; return whether that made another version."""
        with self._turn:
            return self._follow()

    def write(self, act: Act, step: Step | None = None) -> Outcome:
        """Do an act, with what it does to the model, if anything."""
        with self._turn:
            if step is None:
                return self._commit(act, None)
            started = perf_counter()
            before, model = self._labels(), self.living.prepare([step])
            outcome = self._commit(act, _Changed(before, model))
            self._since_snapshot += 1
            self._cost += perf_counter() - started
            return outcome

    def revise(self, act: Act, target: int = 0) -> Outcome:
        """Undo, redo or go back: the model is made anew from the acts that are then in force."""
        with self._turn:
            acts = learnt(self.lines_with(act, target))
            if acts == self._acts:
                return self._commit(act, None)
            hashes, before = _chain(self._base, self.lines, acts), self._labels()
            model = self.living.replace(self._rebuilt(acts, hashes))
            return self._commit(act, _Changed(before, model, (acts, hashes)))

    def lines_with(self, act: Act, target: int = 0) -> list[Line]:
        """Return the log as it would be with one more act."""
        new_id = self.lines[-1].id + 1 if self.lines else 1
        return [*self.lines, Line(new_id, act.kind, act.who, "", act.undoes, target)]

    def _commit(self, act: Act, changed: _Changed | None) -> Outcome:
        number = self.living.version + (changed is not None)
        added, removed = _difference(changed)
        summary: dict[str, Any] = {"added": added, "removed": removed, "samples": act.samples}
        try:
            with self.database.write() as connection:
                if log.last(connection) != self._last():
                    raise Conflict(_AT_ONCE)
                content = act.payload(connection) if callable(act.payload) else act.payload
                entry = log.append(connection, act.who, act.kind, content, number, act.undoes)
                if act.also is not None:
                    act.also(connection, entry)
                if changed is not None:
                    acts, hashes = changed.history or (
                        [*self._acts, entry.id],
                        [*self._hashes, link(self._hashes[-1], entry.digest)],
                    )
                    summary["classes"] = len(changed.model.statistics_)
                    summary["threshold"] = changed.model.threshold_
                    log.add_version(connection, number, entry.id, hashes[-1], summary)
                outcome = Outcome(entry.id, act.kind, number, act.samples, added, removed)
                if self.beside is not None:
                    self.beside(connection, outcome)
        except BaseException as error:
            if changed is not None:
                self.living.give_up()
            if isinstance(error, IntegrityError):
                raise Conflict(_AT_ONCE) from error
            raise
        self.lines.append(Line.of(entry))
        if changed is not None:
            self._acts, self._hashes = acts, hashes
            self.living.publish(number)
        self._tell(entry, summary, here=True)
        return outcome

    def _labels(self) -> set[str]:
        with self.living.reading() as (model, _):
            return {str(label) for label in model.statistics_.labels}

    # -- the model of a history -------------------------------------------------------------------

    def _rebuilt(self, acts: Sequence[int], hashes: Sequence[str]) -> Model:
        """Make the model of a history from the snapshot of its longest beginning that has one."""
        with self.database.read() as connection:
            kept = set(log.snapshot_histories(connection))
            n_known = max(i for i, history in enumerate(hashes) if history in kept)
            started = perf_counter()
            model = from_bytes(log.snapshot(connection, hashes[n_known]))
            self._snapshot_seconds = perf_counter() - started  # writing one takes about as long
            for entry in log.entries(connection, acts[n_known:]):
                try:
                    apply(model, step_of(entry, lambda ids: features_of(connection, ids)))
                except Refused as error:
                    raise Refused(
                        f"Act {entry.id} ({entry.kind} by {entry.who}) builds on this: undo that one first. "
                        f"({error})"
                    ) from error
        return model

    def _last(self) -> int:
        return self.lines[-1].id if self.lines else 0

    def _follow(self) -> bool:
        """Take in the acts that another server has written, or that this one wrote without hearing so.

        Acts that undo each other make new versions of the same model: the number is then all that changes.
        """
        with self.database.read() as connection:
            new = list(log.entries_after(connection, self._last()))
            if not new:
                return False
            made = {found.event_id: found for found in log.versions_of(connection, [act.id for act in new])}
            version = log.version_list(connection, limit=1)[0].id
            lines = [*self.lines, *map(Line.of, new)]
            acts, n_known = learnt(lines), len(self._acts)
            steps = None
            if acts[:n_known] == self._acts:
                further = log.entries(connection, acts[n_known:])
                steps = [step_of(entry, lambda ids: features_of(connection, ids)) for entry in further]
        before = self.living.version
        if acts != self._acts:
            hashes = _chain(self._base, lines, acts)
            if steps is not None:
                self.living.prepare(steps)
            else:
                self.living.replace(self._rebuilt(acts, hashes))
            self._acts, self._hashes = acts, hashes
            self.living.publish(version)
        else:
            self.living.renumber(version)
        self.lines = lines
        for entry in new:
            self._tell(entry, made[entry.id].summary if entry.id in made else {}, here=False)
        return version != before

    def _tell(self, entry: Entry, summary: Mapping[str, Any], *, here: bool) -> None:
        self._changes.tell(
            "act",
            {
                "event": entry.id,
                "kind": entry.kind,
                "who": entry.who,
                "version": entry.model_version,
                "samples": summary.get("samples", len(entry.payload.get("samples", ()))),
                "added": summary.get("added", []),
                "removed": summary.get("removed", []),
            },
            here=here,
        )

    # -- in the background ------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Let the other copy of the model learn what the one in force has learnt."""
        with self._turn:
            self.living.catch_up()

    def snapshot_due(self, times: int = 1) -> bool:
        """Tell whether starting again would take so long that a snapshot is worth it.

        Acts wait while one is written, so those that take long are made after longer.
        """
        settings = self._settings
        seconds = max(settings.snapshot_seconds, _WORTH * self._snapshot_seconds)
        return self._since_snapshot >= times * settings.snapshot_events or self._cost >= times * seconds

    def snapshot(self) -> None:
        """Store the model in force, and drop old snapshots."""
        started = perf_counter()
        with ExitStack() as reading:
            with self._turn:
                model, _ = reading.enter_context(self.living.reading())
                history = self._hashes[-1]
                self._since_snapshot, self._cost = 0, 0.0
            data = dumps(model)
        with self.database.write() as connection:
            kept = log.snapshot_histories(connection)
            if history not in kept:
                log.add_snapshot(connection, history, data)
                log.drop_snapshots(connection, kept[self._settings.snapshots_kept :])
        self._snapshot_seconds = perf_counter() - started


def _chain(base: str, lines: Sequence[Line], acts: Sequence[int]) -> list[str]:
    """Return the hashes of the beginnings of a history."""
    digests = {line.id: line.digest for line in lines}
    return chain(base, [digests[act] for act in acts])


def _difference(changed: _Changed | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the labels that came and those that went."""
    if changed is None:
        return (), ()
    after = {str(label) for label in changed.model.statistics_.labels}
    return tuple(sorted(after - changed.before)), tuple(sorted(changed.before - after))
