"""Stored samples: each content is stored once, with the model's verdict on it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Row, Table, and_, bindparam, case, delete, func, or_, select, update

from openworld.recognition import Judgement
from openworld.store.database import Database
from openworld.store.records import ClassDistance, Kept, Sample, SampleContent, SampleState
from openworld.store.tables import LARGEST_ID, clusters, features, previews, samples, thumbnails

Features = NDArray[np.floating[Any]]
T = TypeVar("T")

# SQLite takes a bounded number of parameters in one statement.
_AT_ONCE = 1000
_NAMES = [field.name for field in fields(Sample)]
_NEAREST = _NAMES.index("nearest")
POOL: tuple[SampleState, SampleState] = ("pending", "recognized")


@dataclass(frozen=True)
class Verdict:
    """The judgement of a sample by one version of the model."""

    answer: str | None
    decision: float
    membership: float
    nearest: tuple[ClassDistance, ...]
    model_version: int

    @classmethod
    def of(cls, judgement: Judgement, row: int, model_version: int) -> Verdict:
        """Return the verdict on one sample of a judgement."""
        nearest = zip(
            judgement.nearest[row].tolist(),
            judgement.distances[row].tolist(),
            judgement.memberships[row].tolist(),
            strict=True,
        )
        return cls(
            str(judgement.labels[row]) if judgement.accepted[row] else None,
            float(judgement.decision[row]),
            float(judgement.membership[row]),
            tuple(ClassDistance(*near) for near in nearest),
            model_version,
        )

    def row(self) -> dict[str, Any]:
        """Return the values of the table's columns."""
        return {
            "answer": self.answer,
            "decision": self.decision,
            "membership": self.membership,
            "nearest": [[near.label, near.distance, near.membership] for near in self.nearest],
            "nearest_label": self.nearest[0].label if self.nearest else None,
            "model_version": self.model_version,
        }


@dataclass(frozen=True)
class NewSample:
    """A sample to store: its features, its content and the verdict on it."""

    feature: Features
    item: SampleContent
    verdict: Verdict
    state: SampleState
    seen: int = 1
    kept: Kept | None = None

    def content_hash(self) -> str:
        """Return a hash that is equal for samples with the same feature, kind and text."""
        return content_hash(self.feature, self.item)


def content_hash(feature: Features, item: SampleContent) -> str:
    """Return a hash that is equal for samples with the same feature, kind and text."""
    digest = hashlib.sha256(f"{item.kind} {feature.dtype.str} {feature.shape} ".encode())
    digest.update(feature.tobytes())
    digest.update((item.text or "").encode())
    return digest.hexdigest()


def store(database: Database, connection: Connection, new: Sequence[NewSample]) -> list[int]:
    """Store samples and return their ids; content that is already stored keeps its id and its group."""
    hashes = [sample.content_hash() for sample in new]
    rows: dict[str, dict[str, Any]] = {}
    first = dict(zip(reversed(hashes), reversed(new), strict=True))
    for digest, sample in zip(hashes, new, strict=True):
        if digest in rows:
            rows[digest]["seen"] += sample.seen
            rows[digest]["group"] = rows[digest]["group"] or sample.item.group
        else:
            rows[digest] = _row(digest, sample)
    insert = _insert_or_count(database.upsert)
    ids: dict[str, int] = {}
    for some in chunks(list(rows.values()), 500):
        ids.update((row[0], row[1]) for row in connection.execute(insert, list(some)))
    parts = [(ids[digest], sample) for digest, sample in first.items()]
    if parts:
        connection.execute(
            database.upsert(features).on_conflict_do_nothing(),
            [{"sample_id": i, "dtype": s.feature.dtype.str, "data": s.feature.tobytes()} for i, s in parts],
        )
    for table, pictures in (
        (thumbnails, [{"sample_id": i, "data": s.item.thumbnail} for i, s in parts if s.item.thumbnail]),
        (previews, [{"sample_id": i, "data": s.item.preview} for i, s in parts if s.item.preview]),
    ):
        if pictures:
            connection.execute(database.upsert(table).on_conflict_do_nothing(), pictures)
    return [ids[digest] for digest in hashes]


@cache  # building the statement takes half the time of storing a sample
def _insert_or_count(upsert: Callable[[Table], Any]) -> Any:
    """Return the statement that inserts samples, or counts those whose content is already stored."""
    insert = upsert(samples)
    came_back = and_(samples.c.seen == 0, samples.c.state == "dismissed", insert.excluded.seen > 0)
    return insert.on_conflict_do_update(
        index_elements=[samples.c.content_hash],
        set_={
            "seen": samples.c.seen + insert.excluded.seen,
            "state": case((came_back, "pending"), else_=samples.c.state),
            "group": func.coalesce(samples.c.group, insert.excluded.group),
        },
    ).returning(samples.c.content_hash, samples.c.id)


def _row(digest: str, sample: NewSample) -> dict[str, Any]:
    item = sample.item
    return {
        "content_hash": digest,
        "kind": item.kind,
        "text": item.text,
        "source": item.source,
        "created_at": datetime.now(UTC),
        "seen": sample.seen,
        "state": sample.state,
        "has_thumbnail": item.thumbnail is not None,
        "kept": sample.kept,
        "group": item.group,
        **sample.verdict.row(),
    }


def sample_of(row: Row[Any]) -> Sample:
    """Return the sample in a row of `select_samples`."""
    values = list(row[: len(_NAMES)])
    values[_NEAREST] = tuple(
        ClassDistance(*near) for near in values[_NEAREST]
    )  # old rows have no memberships
    return Sample(*values)


def select_samples() -> Any:
    """Select the columns of a `Sample`; callers may add more."""
    return select(*(samples.c[name] for name in _NAMES))


def find(connection: Connection, ids: Sequence[int]) -> dict[int, Sample]:
    """Return the samples with these ids; ids that do not exist are skipped."""
    found: dict[int, Sample] = {}
    for some in chunks([i for i in ids if abs(i) <= LARGEST_ID]):
        rows = connection.execute(select_samples().where(samples.c.id.in_(some)))
        found.update((row.id, sample_of(row)) for row in rows)
    return found


class KnownContent(NamedTuple):
    """What is stored with a content: the label and the group of its sample."""

    label: str | None
    group: str | None


def find_content(connection: Connection, hashes: Sequence[str]) -> dict[str, KnownContent]:
    """Return what is stored of the samples with these content hashes."""
    found: dict[str, KnownContent] = {}
    columns = (samples.c.content_hash, samples.c.label, samples.c.group)
    for some in chunks(hashes):
        rows = connection.execute(select(*columns).where(samples.c.content_hash.in_(some)))
        found.update((row[0], KnownContent(*row[1:])) for row in rows)
    return found


def features_of(connection: Connection, ids: Sequence[int]) -> Features:
    """Return the features of samples, in the order given; raise KeyError with an id that does not exist."""
    possible = [i for i in dict.fromkeys(ids) if abs(i) <= LARGEST_ID]
    parts = [
        read_features(connection, select_features().where(features.c.sample_id.in_(some)))
        for some in chunks(possible)
    ]
    rows_of = {i: row for row, i in enumerate(i for found, _ in parts for i in found.tolist())}
    places = [rows_of[i] for i in ids]
    return np.concatenate([X for found, X in parts if len(found)])[places] if places else np.empty((0, 0))


def select_features() -> Any:
    """Select the columns that `read_features` needs."""
    return select(features.c.sample_id, features.c.dtype, features.c.data)


def read_features(connection: Connection, query: Any) -> tuple[NDArray[np.int64], Features]:
    """Return the ids and features that a `select_features` query finds."""
    rows = plain_rows(connection, query)
    if not rows:
        return np.empty(0, dtype=np.int64), np.empty((0, 0), dtype=np.float32)
    if len({dtype for _, dtype, _ in rows}) == 1:
        X = np.frombuffer(b"".join([data for _, _, data in rows]), rows[0][1]).reshape(len(rows), -1)
    else:
        X = np.array([np.frombuffer(data, dtype) for _, dtype, data in rows])
    return np.array([i for i, _, _ in rows], dtype=np.int64), X


def plain_rows(connection: Connection, query: Any) -> Sequence[tuple[Any, ...]]:
    """Return the driver's rows: converting very many of them to SQLAlchemy's takes as long again."""
    with connection.execute(query) as result:
        return result.cursor.fetchall()


def picture_of(connection: Connection, sample_id: int, *, large: bool = False) -> bytes | None:
    """Return the picture of a sample, if it has one; the small one where there is no large one."""
    if abs(sample_id) > LARGEST_ID:
        return None
    for table in (previews, thumbnails) if large else (thumbnails,):
        query = select(table.c.data).where(table.c.sample_id == sample_id)
        if (data := connection.execute(query).scalar_one_or_none()) is not None:
            return bytes(data)
    return None


# -- rescoring --------------------------------------------------------------------------------------


def pool_after(connection: Connection, after: int, limit: int) -> tuple[list[Sample], Features]:
    """Return the next pending or recognized samples, with their features."""
    rows = connection.execute(
        select_samples()
        .where(samples.c.id > after, samples.c.state.in_(POOL))
        .order_by(samples.c.id)
        .limit(limit)
    )
    found = [sample_of(row) for row in rows]
    return found, features_of(connection, [sample.id for sample in found])


def judged_before(connection: Connection, version: int, since: datetime) -> list[int]:
    """Return the pending and recognized samples stored since a moment and judged by an earlier version."""
    query = select(samples.c.id).where(
        samples.c.created_at >= since, samples.c.model_version < version, samples.c.state.in_(POOL)
    )
    return list(connection.execute(query).scalars())


def update_verdicts(connection: Connection, verdicts: Mapping[int, Verdict]) -> tuple[int, int]:
    """Store new verdicts; return how many samples left the unknown pool, and how many returned to it.

    A sample keeps its state if a person has labeled or dismissed it since it was read, or returned it to the
    pool, and its verdict if a later version of the model has judged it.
    """
    columns = (samples.c.id, samples.c.state, samples.c.who, samples.c.model_version)
    rows: list[dict[str, Any]] = []
    recognized = returned = 0
    for some in chunks(list(verdicts)):
        query = select(*columns).where(samples.c.id.in_(some), samples.c.state.in_(POOL))
        for sample in connection.execute(query):
            verdict = verdicts[sample.id]
            if sample.model_version > verdict.model_version:
                continue
            stays = sample.state == "pending" and sample.who is not None
            state = "pending" if verdict.answer is None or stays else "recognized"
            recognized += sample.state == "pending" and state == "recognized"
            returned += sample.state == "recognized" and state == "pending"
            rows.append({"b_id": sample.id, "state": state, **verdict.row()})
    if rows:
        connection.execute(update(samples).where(samples.c.id == bindparam("b_id")), rows)
    return recognized, returned


# -- retention --------------------------------------------------------------------------------------


def old_recognized(connection: Connection, most: int, before: datetime) -> dict[int, Kept]:
    """Return the samples kept for review that were stored before a moment, or are the oldest of too many.

    Returns why each was kept. Those that a person reviewed are not among them.
    """
    kept = and_(samples.c.kept.is_not(None), samples.c.state == "recognized", samples.c.event_id.is_(None))
    all_kept = select(samples.c.id, samples.c.kept).where(kept)
    old = all_kept.where(samples.c.created_at < before)
    surplus = all_kept.order_by(samples.c.id.desc()).offset(most)
    return {row.id: row.kept for query in (old, surplus) for row in connection.execute(query)}


def leave_random_share(connection: Connection, ids: Sequence[int]) -> None:
    """Take samples out of the random share."""
    for some in chunks(ids):
        connection.execute(update(samples).where(samples.c.id.in_(some)).values(kept=None))


def old_unknown(connection: Connection, most: int | None, before: datetime | None) -> list[int]:
    """Return the pending samples to delete: stored before a moment, or the oldest of more than `most`.

    Those whose state an event gave, and those of a cluster that a person holds now, stay.
    """
    held = select(clusters.c.id).where(clusters.c.held_until > datetime.now(UTC))
    waiting = and_(
        samples.c.state == "pending",
        samples.c.event_id.is_(None),
        or_(samples.c.cluster_id.is_(None), samples.c.cluster_id.not_in(held)),
    )
    pending = select(samples.c.id).where(waiting).order_by(samples.c.id.desc())
    found: set[int] = set()
    if before is not None:
        found.update(connection.execute(pending.where(samples.c.created_at < before)).scalars())
    if most is not None:
        found.update(connection.execute(pending.offset(most)).scalars())
    return sorted(found)


def erase(connection: Connection, ids: Sequence[int]) -> None:
    """Delete samples, and overwrite what they held in an SQLite file."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA secure_delete = ON")
    delete_samples(connection, ids)


def delete_samples(connection: Connection, ids: Sequence[int]) -> None:
    """Delete samples with their features and pictures."""
    for some in chunks(ids):
        for table, column in (
            (features, features.c.sample_id),
            (thumbnails, thumbnails.c.sample_id),
            (previews, previews.c.sample_id),
            (samples, samples.c.id),
        ):
            connection.execute(delete(table).where(column.in_(some)))


def delete_previews(connection: Connection, most: int) -> None:
    """Delete the previews of the oldest samples where there are more than `most`."""
    newest = select(previews.c.sample_id).order_by(previews.c.sample_id.desc())
    first_to_go = connection.execute(newest.offset(most).limit(1)).scalar_one_or_none()
    if first_to_go is not None:
        connection.execute(delete(previews).where(previews.c.sample_id <= first_to_go))


def chunks(values: Sequence[T], size: int = _AT_ONCE) -> Iterator[Sequence[T]]:
    """Yield the values in chunks of at most `size`."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
