"""Label table: the states that events gave to samples, and the descriptions of classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, bindparam, case, delete, func, insert, select, update

from openworld.store.events import EventRecord
from openworld.store.records import SampleState
from openworld.store.samples import chunks
from openworld.store.tables import descriptions, samples


@dataclass(frozen=True)
class GivenState:
    """The state that an event gave a sample."""

    state: SampleState
    label: str | None
    who: str | None
    at: datetime | None
    event_id: int | None

    @classmethod
    def labeled(cls, label: str, by: EventRecord) -> GivenState:
        """Return the state of a sample that an event labeled."""
        return cls("labeled", label, by.who, by.at, by.id)

    @classmethod
    def dismissed(cls, by: EventRecord) -> GivenState:
        """Return the state of a sample that an event dismissed."""
        return cls("dismissed", None, by.who, by.at, by.id)

    @classmethod
    def returned(cls, by: EventRecord) -> GivenState:
        """Return the state of a sample that an event returned to the pool."""
        return cls("pending", None, by.who, by.at, by.id)


class LabelTable:
    """Applies events to the stored labels and descriptions, inside a transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def label(self, labels: Mapping[int, str], by: EventRecord) -> None:
        """Label samples."""
        set_states(self._connection, {i: GivenState.labeled(label, by) for i, label in labels.items()})

    def dismiss(self, sample_ids: Sequence[int], by: EventRecord) -> None:
        """Remove samples from the pool."""
        set_states(self._connection, dict.fromkeys(sample_ids, GivenState.dismissed(by)))

    def return_to_pool(self, sample_ids: Sequence[int], by: EventRecord) -> None:
        """Return wrongly recognized samples to the pool."""
        set_states(self._connection, dict.fromkeys(sample_ids, GivenState.returned(by)))

    def move(self, labels: Sequence[str], into: str) -> None:
        """Move the samples of some classes to another, which gets a description of theirs if it has none."""
        self._connection.execute(update(samples).where(samples.c.label.in_(labels)).values(label=into))
        texts = get_descriptions(self._connection)
        moved = [texts.pop(label) for label in labels if label != into and label in texts]
        if moved:
            set_descriptions(self._connection, {into: moved[0], **texts})

    def forget(self, label: str) -> None:
        """Return the samples of a class to the pool and delete its description."""
        found = self._connection.execute(select(samples.c.id).where(samples.c.label == label)).scalars()
        release(self._connection, list(found))
        self._connection.execute(delete(descriptions).where(descriptions.c.label == label))

    def describe(self, label: str, text: str) -> None:
        """Set the description of a class."""
        self._connection.execute(delete(descriptions).where(descriptions.c.label == label))
        self._connection.execute(insert(descriptions), {"label": label, "text": text})


def replace_all(connection: Connection, states: Mapping[int, GivenState], texts: Mapping[str, str]) -> None:
    """Replace the stored labels and descriptions by a projection; unchanged samples are not written."""
    before = _given_states(connection)
    changed = {
        i: given for i, given in states.items() if before.get(i) != (given.state, given.label, given.event_id)
    }
    set_states(connection, changed)
    release(connection, before.keys() - states.keys())
    set_descriptions(connection, texts)


@dataclass(frozen=True)
class OverwrittenLabels:
    """The label state before an event: what to restore when the event is undone.

    `states` has the samples that the event changes, with None for those that had no state from an event.
    `texts` has all descriptions.
    """

    states: Mapping[int, GivenState | None]
    texts: Mapping[str, str]

    @classmethod
    def of(cls, connection: Connection, ids: Iterable[int], labels: Iterable[str]) -> OverwrittenLabels:
        """Read the states of these samples and of all samples with these labels."""
        names = ("id", "state", "label", "who", "labeled_at", "event_id")
        query = select(*(samples.c[name] for name in names))
        conditions = [samples.c.id.in_(some) for some in chunks(list(ids))]
        conditions += [samples.c.label.in_(some) for some in chunks(list(labels))]
        states: dict[int, GivenState | None] = {}
        for condition in conditions:
            for row in connection.execute(query.where(condition)):
                states[row.id] = GivenState(*row[1:]) if row.event_id is not None else None
        return cls(states, get_descriptions(connection))

    def restore(self, connection: Connection) -> None:
        """Write the state back."""
        given_states = {i: given for i, given in self.states.items() if given is not None}
        set_states(connection, given_states)
        release(connection, self.states.keys() - given_states.keys())
        set_descriptions(connection, self.texts)


def set_states(connection: Connection, states: Mapping[int, GivenState]) -> None:
    """Set the states of samples. They stay in their clusters, so undo need not restore these."""
    rows = [
        {
            "b_id": i,
            "state": given.state,
            "label": given.label,
            "who": given.who,
            "labeled_at": given.at,
            "event_id": given.event_id,
        }
        for i, given in states.items()
    ]
    if rows:
        connection.execute(update(samples).where(samples.c.id == bindparam("b_id")), rows)


def release(connection: Connection, ids: Iterable[int]) -> None:
    """Remove the state that an event gave to samples; they return to the pool if they were ever in it."""
    state = case((samples.c.seen > 0, "pending"), else_="dismissed")
    for some in chunks(list(ids)):
        connection.execute(
            update(samples)
            .where(samples.c.id.in_(some))
            .values(state=state, label=None, who=None, labeled_at=None, event_id=None)
        )


def _given_states(connection: Connection) -> dict[int, tuple[str, str | None, int]]:
    """Return the state, label and event id of every sample whose state comes from an event."""
    rows = connection.execute(
        select(samples.c.id, samples.c.state, samples.c.label, samples.c.event_id).where(
            samples.c.event_id.is_not(None)
        )
    )
    return {row.id: (row.state, row.label, row.event_id) for row in rows}


def labeled_with(connection: Connection, ids: Sequence[int]) -> dict[int, dict[int, str]]:
    """Return the ids of the events that labeled these samples, with all samples of each and their labels."""
    found: dict[int, dict[int, str]] = {}
    for some in chunks(ids):
        by = select(samples.c.event_id).where(samples.c.id.in_(some), samples.c.state == "labeled")
        rows = connection.execute(
            select(samples.c.event_id, samples.c.id, samples.c.label).where(
                samples.c.event_id.in_(by), samples.c.state == "labeled"
            )
        )
        for row in rows:
            found.setdefault(row.event_id, {})[row.id] = row.label
    return found


def count_states(connection: Connection, who: str | None = None) -> dict[str, int]:
    """Count samples by state: all of them, or those of one person."""
    query = select(samples.c.state, func.count()).group_by(samples.c.state)
    if who is not None:
        query = query.where(samples.c.who == who)
    return {row[0]: row[1] for row in connection.execute(query)}


def get_descriptions(connection: Connection) -> dict[str, str]:
    """Return the description of each class that has one."""
    return {row.label: row.text for row in connection.execute(select(descriptions))}


def set_descriptions(connection: Connection, texts: Mapping[str, str]) -> None:
    """Replace all descriptions."""
    connection.execute(delete(descriptions))
    if texts:
        connection.execute(insert(descriptions), [{"label": k, "text": v} for k, v in texts.items()])
