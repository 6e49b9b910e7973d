"""Event log: appends events one at a time and keeps the live model consistent with the log.

An event is first applied to the copy of the model that nobody reads, so an event that the model refuses is
never written. Then the event is written in one transaction, and the changed copy is published. After a crash
the model is replayed from the log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from time import perf_counter

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from openworld.model_file import dumps
from openworld.service.events import event_of
from openworld.service.live_model import LiveModel, Model
from openworld.service.notifications import Notifications
from openworld.service.replay import (
    EventHeader,
    Snapshots,
    changes_of,
    erased_samples,
    events_in_effect,
    extend_hash,
    history_hashes,
    model_events,
    n_erasures,
)
from openworld.service.settings import WorldSettings
from openworld.service.validation import Conflict, NotFound, check_name
from openworld.service.world_event import EventOutcome, LabelProjection, TouchedLabels, WorldEvent
from openworld.store import Database, events, labels
from openworld.store.events import EventRecord
from openworld.store.samples import Features, erase, features_of

_LOADING_EVENTS = 10  # loading a snapshot takes about as long as applying this many events
_OVERWRITTEN_KEPT = 20
_Overwritten = list[tuple[int, labels.OverwrittenLabels]]  # by id of the last events in effect, latest last
_SIMULTANEOUS = "Another server appended an event at the same moment: try again."


InTransaction = Callable[[Connection, EventOutcome], None]


@dataclass(frozen=True)
class _NewVersion:
    """A model that is prepared but not yet published, and the class labels before it.

    `history` has the ids and hashes of the model's events; None if there is just one event more than before.
    """

    labels_before: set[str]
    model: Model
    history: tuple[list[int], list[str]] | None = None


class EventLog:
    """Append-only log of events, with the model that they produce.

    Attributes
    ----------
    model : LiveModel
    headers : list of EventHeader
        The whole log, without payloads.
    snapshots : Snapshots
    """

    def __init__(self, database: Database, settings: WorldSettings, notifications: Notifications) -> None:
        self.database = database
        self._notifications = notifications
        self._appending = threading.RLock()  # one thread at a time waits for the advisory lock
        self._lock = threading.RLock()  # held while model and headers are used or changed
        self._is_exclusive = False
        self._in_transaction: InTransaction | None = None
        with database.read() as connection:
            self.headers = [EventHeader.of(record) for record in events.read_after(connection, 0)]
            version = events.version_list(connection, limit=1)[0].id
            self._base = events.snapshot_histories(connection)[0]
            self._erased = erased_samples(connection, self.headers)
        self._overwritten: _Overwritten = []
        self._ids = model_events(self.headers)
        self._hashes = self._hashes_of(self.headers, self._ids)
        self.snapshots = Snapshots(database, settings)
        model, changes = self.snapshots.replay(self._ids, self._hashes, self._erased)
        self.model = LiveModel(model, version, changes)

    # -- appending --------------------------------------------------------------------------------

    @contextmanager
    def exclusive(self, in_transaction: InTransaction | None = None) -> Iterator[None]:
        """Lock the log for one thread of one server, to check a condition and append an event; may be nested.

        Parameters
        ----------
        in_transaction : callable, optional
            Called with the outcome in the transaction of each event that is appended inside the block.
        """
        with self._appending:
            if self._is_exclusive:
                yield
                return
            # In this order, so that `follow` can run while this thread waits for another server.
            with self.database.advisory_lock("event log"), self._lock:
                self._follow()
                self._is_exclusive, self._in_transaction = True, in_transaction
                try:
                    yield
                finally:
                    self._is_exclusive, self._in_transaction = False, None

    def append(
        self,
        event: WorldEvent,
        who: str,
        *,
        undoes: int | None = None,
        features: Features | None = None,
        complete: Callable[[Connection], WorldEvent] | None = None,
    ) -> EventOutcome:
        """Append an event and publish its effects; if this raises, nothing has changed.

        Parameters
        ----------
        event : WorldEvent
        who : str
        undoes : int, optional
            The event that an undo or a redo cancels.
        features : array, optional
            Features of the event's samples, if the samples are not stored yet.
        complete : callable, optional
            Returns the event with the ids that are only known inside its transaction.
        """
        who = check_name(who, "A person")
        with self.exclusive():
            started = perf_counter()
            version = self._prepare(event, who, undoes, features)
            outcome = self._commit(event, who, undoes, version, complete)
            if event.changes_model:
                self.snapshots.count_event(perf_counter() - started)
            return outcome

    def _prepare(
        self, event: WorldEvent, who: str, undoes: int | None, features: Features | None
    ) -> _NewVersion | None:
        """Prepare the model after the event; None if the event does not change the model."""
        if event.erased:
            return self._prepare_without(self._erased | event.erased)
        if event.rewinds:
            ids = model_events([*self.headers, self._next_header(event, who, undoes)])
            if ids == self._ids:
                return None
            hashes = self._hashes_of(self.headers, ids)
            before = self._labels()
            return _NewVersion(before, self._move_to(ids, hashes), (ids, hashes))
        if not event.changes_model:
            return None
        if features is None:
            with self.database.read() as connection:
                features = features_of(connection, event.learned)
        before = self._labels()
        return _NewVersion(before, self.model.prepare([event.change_of(features)]))

    def _prepare_without(self, erased: frozenset[int]) -> _NewVersion | None:
        """Prepare the model without the erased samples; None if it has learned none of them."""
        with self.database.read() as connection:
            records = events.read(connection, self._ids)
            if all((event := self.event(one)) == event.without(erased) for one in records):
                return None
        before = self._labels()
        model = self.model.replace(*self.snapshots.replay(self._ids, self._hashes, erased, from_first=True))
        return _NewVersion(before, model, (self._ids, self._hashes))

    def _next_header(self, event: WorldEvent, who: str, undoes: int | None) -> EventHeader:
        return EventHeader(self._last_id() + 1, event.kind, who, "", undoes, event.target)

    def _commit(
        self,
        event: WorldEvent,
        who: str,
        undoes: int | None,
        version: _NewVersion | None,
        complete: Callable[[Connection], WorldEvent] | None,
    ) -> EventOutcome:
        number = self.model.version + (version is not None)
        added, removed = _difference(version)
        try:
            with self.database.write() as connection:
                if events.last_id(connection) != self._last_id():
                    raise Conflict(_SIMULTANEOUS)
                if complete is not None:
                    event = complete(connection)
                if event.erased:
                    erase(connection, sorted(event.erased))
                    self.snapshots.drop_all(connection)
                record = events.append(connection, who, event.kind, event.payload, number, undoes)
                overwritten = self._write_effects(connection, event, record)
                if version is not None:
                    ids, hashes = version.history or (
                        [*self._ids, record.id],
                        [*self._hashes, extend_hash(self._hashes[-1], record.digest)],
                    )
                    summary = {
                        "added": added,
                        "removed": removed,
                        "samples": event.n_samples,
                        "classes": len(version.model.statistics_),
                        "threshold": version.model.threshold_,
                    }
                    events.add_version(connection, number, record.id, hashes[-1], summary)
                outcome = EventOutcome(
                    record.id, event.kind, number, event.n_samples, added, removed, version is not None
                )
                if self._in_transaction is not None:
                    self._in_transaction(connection, outcome)
        except BaseException as error:
            if version is not None:
                self.model.discard()
            if isinstance(error, IntegrityError):
                raise Conflict(_SIMULTANEOUS) from error
            raise
        self.headers.append(EventHeader.of(record))
        self._overwritten = overwritten
        if event.erased:
            self._erased |= event.erased
            self.snapshots.require_new()
            self._overwritten = []
        if version is not None:
            self._ids, self._hashes = ids, hashes
            self.model.publish(number)
        self._notify(record, event, added, removed, here=True)
        return outcome

    def _write_effects(self, connection: Connection, event: WorldEvent, record: EventRecord) -> _Overwritten:
        """Apply an event to the stored labels and clusters; return the new value of `_overwritten`."""
        if not event.rewinds:
            event.apply_to_clusters(connection)
            return self._label(connection, event, record)
        overwritten = self._rewind_labels(connection, record)
        if record.undoes is not None:
            undone = self.header(record.undoes)  # for a redo, the undo of the event that is redone
            (original,) = events.read(connection, [undone.undoes or undone.id])
            event.rewind_clusters(connection, self.event(original))
        return overwritten

    def _label(self, connection: Connection, event: WorldEvent, record: EventRecord) -> _Overwritten:
        """Apply an event to the stored labels and remember what it overwrites."""
        touched = TouchedLabels()
        event.apply_to_labels(touched, record)
        before = labels.OverwrittenLabels.of(connection, touched.samples, touched.classes)
        event.apply_to_labels(labels.LabelTable(connection), record)
        return [*self._overwritten, (record.id, before)][-_OVERWRITTEN_KEPT:]

    def _rewind_labels(self, connection: Connection, record: EventRecord) -> _Overwritten:
        """Set the stored labels to those of the events in effect.

        Undo of the latest event restores what it overwrote; every other case replays the events.
        """
        if self._overwritten and self._overwritten[-1][0] == record.undoes:
            self._overwritten[-1][1].restore(connection)
            return self._overwritten[:-1]
        projection = LabelProjection()
        for past in events.read(connection, events_in_effect([*self.headers, EventHeader.of(record)])):
            self.event(past).apply_to_labels(projection, past)
        labels.replace_all(connection, projection.states, projection.descriptions)
        return []

    def event(self, record: EventRecord) -> WorldEvent:
        """Return a stored event, without samples that were erased later."""
        return event_of(record.kind, record.payload).without(self._erased)

    def header(self, event_id: int) -> EventHeader:
        """Return the header of an event, or raise `NotFound`."""
        for header in reversed(self.headers):
            if header.id == event_id:
                return header
        raise NotFound(f"There is no event {event_id}.")

    def _last_id(self) -> int:
        return self.headers[-1].id if self.headers else 0

    def _labels(self) -> set[str]:
        with self.model.reading() as (model, _):
            return {str(label) for label in model.statistics_.labels}

    # -- replay -----------------------------------------------------------------------------------

    def _move_to(self, ids: Sequence[int], hashes: Sequence[str]) -> Model:
        """Prepare the model of these events: from the current model if that is quicker, else by replay."""
        n_common = next(
            (i for i, (new, old) in enumerate(zip(ids, self._ids, strict=False)) if new != old),
            min(len(ids), len(self._ids)),
        )
        back = len(self._ids) - n_common
        is_near = self.snapshots.n_stored(hashes) <= n_common + _LOADING_EVENTS
        if not is_near or not self.model.can_step_back(back):
            return self.model.replace(*self.snapshots.replay(ids, hashes, self._erased))
        with self.database.read() as connection:
            changes = changes_of(connection, ids[n_common:], self._erased)
        return self.model.prepare(changes, back)

    def _hashes_of(self, headers: Sequence[EventHeader], ids: Sequence[int]) -> list[str]:
        digests = {header.id: header.digest for header in headers}
        return history_hashes(self._base, [digests[i] for i in ids])

    # -- replicas ---------------------------------------------------------------------------------

    def follow(self) -> None:
        """Apply the events that other servers have appended."""
        with self._lock:
            self._follow()

    def _follow(self) -> None:
        """Apply events of other servers, and events of this server whose commit was not acknowledged.

        If the new events undo each other, the model is the same and only its version number changes.
        """
        with self.database.read() as connection:
            new = list(events.read_after(connection, self._last_id()))
            if not new:
                return
            versions = {
                version.event_id: version
                for version in events.versions_of(connection, [record.id for record in new])
            }
            number = events.version_list(connection, limit=1)[0].id
            headers = [*self.headers, *map(EventHeader.of, new)]
            erased = erased_samples(connection, headers)
        ids = model_events(headers)
        if ids != self._ids or erased != self._erased:
            hashes = self._hashes_of(headers, ids)
            if erased != self._erased:
                self.model.replace(*self.snapshots.replay(ids, hashes, erased, from_first=True))
            else:
                self._move_to(ids, hashes)
            self._erased, self._ids, self._hashes = erased, ids, hashes
            self.model.publish(number)
        else:
            self.model.renumber(number)
        self.headers, self._overwritten = headers, []
        for record in new:
            summary = versions[record.id].summary if record.id in versions else {}
            event = event_of(record.kind, record.payload)
            self._notify(record, event, summary.get("added", []), summary.get("removed", []), here=False)

    def _notify(
        self,
        record: EventRecord,
        event: WorldEvent,
        added: Sequence[str],
        removed: Sequence[str],
        *,
        here: bool,
    ) -> None:
        data = {
            "event": record.id,
            "kind": record.kind,
            "who": record.who,
            "version": record.model_version,
            "samples": event.n_samples,
            "added": added,
            "removed": removed,
        }
        self._notifications.publish("event", data, here=here)

    # -- snapshots --------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Apply the published changes to the back copy of the live model."""
        with self._lock:
            self.model.catch_up()

    def snapshot(self) -> None:
        """Store the current model as a snapshot."""
        started = perf_counter()
        with ExitStack() as reading:
            with self._lock:
                model, _ = reading.enter_context(self.model.reading())
                history, n_known = self._hashes[-1], n_erasures(self.headers)
                self.snapshots.restart_count()
            data = dumps(model)
        self.snapshots.store(data, history, n_known, started)


def _difference(version: _NewVersion | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the class labels that the version adds and those that it removes."""
    if version is None:
        return (), ()
    after = {str(label) for label in version.model.statistics_.labels}
    return tuple(sorted(after - version.labels_before)), tuple(sorted(version.labels_before - after))
