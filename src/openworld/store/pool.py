"""Listing samples by filter, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, func, or_, select, tuple_

from openworld.store.records import RANDOM, PoolFilter, Sample
from openworld.store.samples import (
    Features,
    features_of,
    plain_rows,
    pool_after,
    read_features,
    sample_of,
    select_features,
    select_samples,
)
from openworld.store.tables import LARGEST_ID, features, samples

__all__ = ["count", "ids", "labeled", "page", "pending", "pending_features", "pool_after"]

Ids = NDArray[np.int64]


def _conditions(where: PoolFilter) -> list[ColumnElement[bool]]:
    table = samples.c
    conditions: list[ColumnElement[bool] | None] = [
        None if where.state is None else table.state == where.state,
        None if where.cluster is None else table.cluster_id == where.cluster,
        None if where.nearest is None else table.nearest_label == where.nearest,
        None if where.label is None else table.label == where.label,
        None if where.source is None else table.source == where.source,
        None if where.since is None else table.created_at >= where.since,
        None if where.until is None else table.created_at < where.until,
        None if where.answer is None else table.answer == where.answer,
        table.kept.in_(RANDOM) if where.random else None,
    ]
    if where.clustered is not None:
        conditions.append(table.cluster_id.is_not(None) if where.clustered else table.cluster_id.is_(None))
    if where.text:
        conditions.append(
            or_(
                table.text.icontains(where.text, autoescape=True),
                table.source.icontains(where.text, autoescape=True),
            )
        )
    return [condition for condition in conditions if condition is not None]


def _order(where: PoolFilter) -> list[ColumnElement[Any]]:
    if where.cluster is not None:
        return [samples.c.cluster_rank, samples.c.id]
    if where.least_certain_first:
        return [samples.c.membership, samples.c.id]
    return [samples.c.id.desc() if where.newest_first else samples.c.id]


def ids(connection: Connection, where: PoolFilter, limit: int | None = None) -> list[int]:
    """Return the ids of samples in the order in which they are listed."""
    query = select(samples.c.id).where(*_conditions(where)).order_by(*_order(where)).limit(limit)
    return list(connection.execute(query).scalars())


def page(
    connection: Connection, where: PoolFilter, after: str | None, limit: int
) -> tuple[list[Sample], str | None]:
    """Return the samples after a cursor and the cursor of the next page, or None at the end.

    The cursor is the position of the last row (keyset pagination), so every page costs the same.
    """
    query = select_samples().add_columns(samples.c.cluster_rank).where(*_conditions(where))
    order = _order(where)
    if after is not None:
        start = _parse_cursor(after, len(order))
        if len(order) > 1:
            query = query.where(tuple_(*order) > start)
        else:
            query = query.where(samples.c.id < start[0] if where.newest_first else samples.c.id > start[0])
    rows = connection.execute(query.order_by(*order).limit(limit + 1)).all()
    found = [sample_of(row) for row in rows[:limit]]
    if len(rows) <= limit or not found:
        return found, None
    if where.cluster is not None:
        return found, f"{rows[limit - 1].cluster_rank},{found[-1].id}"
    if where.least_certain_first:
        return found, f"{found[-1].membership!r},{found[-1].id}"
    return found, str(found[-1].id)


class BadCursor(ValueError):
    """A cursor that does not belong to a list of this kind."""


def _parse_cursor(cursor: str, n_parts: int) -> tuple[float, ...]:
    *first, last = cursor.split(",")
    if len(first) != n_parts - 1 or not (last.isascii() and last.isdigit()):
        raise BadCursor(cursor)
    try:
        place = tuple(float(part) for part in first)
    except ValueError:
        raise BadCursor(cursor) from None
    if not all(0 <= part <= LARGEST_ID for part in place):
        raise BadCursor(cursor)
    return *place, min(int(last), LARGEST_ID)


def count(connection: Connection, where: PoolFilter) -> int:
    """Count samples."""
    return connection.execute(
        select(func.count()).select_from(samples).where(*_conditions(where))
    ).scalar_one()


def pending(connection: Connection) -> tuple[Ids, Ids]:
    """Return the ids of the pending samples, ascending, and their clusters, -1 for none."""
    query = select(samples.c.id, func.coalesce(samples.c.cluster_id, -1)).where(samples.c.state == "pending")
    rows = plain_rows(connection, query.order_by(samples.c.id))
    both = np.fromiter(chain.from_iterable(rows), np.int64, 2 * len(rows)).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def pending_features(connection: Connection, batch: int) -> Iterator[tuple[Ids, Features]]:
    """Yield the ids, ascending, and features of the pending samples, in batches."""
    query = (
        select_features()
        .join(samples, samples.c.id == features.c.sample_id)
        .where(samples.c.state == "pending")
        .order_by(samples.c.id)
        .limit(batch)
    )
    after = 0
    while True:
        ids, X = read_features(connection, query.where(samples.c.id > after))
        if not len(ids):
            return
        yield ids, X
        after = int(ids[-1])


def labeled(connection: Connection, batch: int = 500) -> Iterator[tuple[Sample, Features]]:
    """Yield every labeled sample with its feature."""
    cursor: str | None = None
    while True:
        found, cursor = page(connection, PoolFilter(state="labeled"), cursor, batch)
        if found:
            yield from zip(found, features_of(connection, [sample.id for sample in found]), strict=True)
        if cursor is None:
            return


def count_answers(connection: Connection) -> dict[str, int]:
    """Count the recognized samples by the class that the model answered."""
    query = (
        select(samples.c.answer, func.count())
        .where(samples.c.state == "recognized", samples.c.answer.is_not(None))
        .group_by(samples.c.answer)
    )
    return {row[0]: row[1] for row in connection.execute(query)}
