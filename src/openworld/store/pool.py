"""Listing samples, a page at a time, however many there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, or_, select, tuple_

from openworld.store.records import PoolFilter, Sample
from openworld.store.samples import Features, features_of, pool_after, sample_of, select_samples
from openworld.store.tables import LARGEST_ID, samples

__all__ = ["count", "labelled", "page", "pool_after"]


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


def page(
    connection: Connection, where: PoolFilter, after: str | None, limit: int
) -> tuple[list[Sample], str | None]:
    """Return the samples after a cursor and the cursor to go on with, or None at the end.

    The cursor tells where the last row stood, so that a page costs the same at the beginning and at the end.
    """
    query = select_samples().add_columns(samples.c.cluster_rank).where(*_conditions(where))
    by_rank = where.cluster is not None
    place: Any = tuple_(samples.c.cluster_rank, samples.c.id) if by_rank else samples.c.id
    if after is not None:
        start = _place(after, 2 if by_rank else 1)
        query = query.where(place < start if where.newest_first and not by_rank else place > start)
    if by_rank:
        query = query.order_by(samples.c.cluster_rank, samples.c.id)
    else:
        query = query.order_by(samples.c.id.desc() if where.newest_first else samples.c.id)
    rows = connection.execute(query.limit(limit + 1)).all()
    ranks = [row.cluster_rank for row in rows[:limit]]
    found = [sample_of(row) for row in rows[:limit]]
    if len(rows) <= limit or not found:
        return found, None
    return found, f"{ranks[-1]}.{found[-1].id}" if by_rank else str(found[-1].id)


class BadCursor(ValueError):
    """A text that is not where a list of this kind can go on."""


def _place(cursor: str, n_parts: int) -> Any:
    parts = cursor.split(".")
    if len(parts) != n_parts or not all(part.isascii() and part.isdigit() for part in parts):
        raise BadCursor(cursor)
    place = tuple(min(int(part), LARGEST_ID) for part in parts)
    return place if n_parts > 1 else place[0]


def count(connection: Connection, where: PoolFilter) -> int:
    """Count samples."""
    return connection.execute(
        select(func.count()).select_from(samples).where(*_conditions(where))
    ).scalar_one()


def labelled(connection: Connection, batch: int = 500) -> Iterator[tuple[Sample, Features]]:
    """Yield every labelled sample with its feature."""
    cursor: str | None = None
    while True:
        found, cursor = page(connection, PoolFilter(state="labelled"), cursor, batch)
        if found:
            yield from zip(found, features_of(connection, [sample.id for sample in found]), strict=True)
        if cursor is None:
            return
