"""Clusters of the unknown pool: their members and their leases."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, func, insert, or_, select, update

from openworld.store.records import ClusterDraft, PoolCluster
from openworld.store.samples import chunks
from openworld.store.tables import LARGEST_ID, clusters, samples

_COLUMNS = ("id", "medoid", "pinned", "holder", "held_until", "purity", "novelty", "loose")


def cluster_list(connection: Connection) -> list[PoolCluster]:
    """Return the clusters with pending samples, largest first."""
    rows = connection.execute(_select())
    return sorted((_cluster(row) for row in rows), key=lambda cluster: (-cluster.size, cluster.id))


def cluster(connection: Connection, cluster_id: int) -> PoolCluster | None:
    """Return one cluster that has pending samples."""
    if abs(cluster_id) > LARGEST_ID:
        return None
    row = connection.execute(_select(samples.c.cluster_id == cluster_id)).one_or_none()
    return None if row is None else _cluster(row)


def ever_existed(connection: Connection, cluster_id: int) -> bool:
    """Return whether there is or was a cluster: the rows of empty ones stay."""
    if abs(cluster_id) > LARGEST_ID:
        return False
    return connection.execute(select(clusters.c.id).where(clusters.c.id == cluster_id)).first() is not None


def _select(*conditions: ColumnElement[bool]) -> Any:
    """Select clusters with their sizes; the index alone suffices to count."""
    sizes = (
        select(samples.c.cluster_id, func.count().label("size"))
        .where(samples.c.state == "pending", samples.c.cluster_id.is_not(None), *conditions)
        .group_by(samples.c.cluster_id)
        .subquery()
    )
    columns = [clusters.c[name] for name in _COLUMNS]
    return select(*columns, sizes.c.size).join(sizes, sizes.c.cluster_id == clusters.c.id)


def _cluster(row: Row[Any]) -> PoolCluster:
    found = PoolCluster(**row._mapping)
    if found.held_until is not None and found.held_until <= datetime.now(UTC):
        return dataclasses.replace(found, holder=None, held_until=None)
    return found


def members(connection: Connection, cluster_ids: Sequence[int]) -> list[int]:
    """Return the ids of the pending samples of clusters, cluster by cluster, in viewing order."""
    return list(
        connection.execute(
            select(samples.c.id)
            .where(
                samples.c.cluster_id.in_([i for i in cluster_ids if abs(i) <= LARGEST_ID]),
                samples.c.state == "pending",
            )
            .order_by(samples.c.cluster_id, samples.c.cluster_rank, samples.c.id)
        ).scalars()
    )


def replace(connection: Connection, drafts: Sequence[ClusterDraft]) -> list[int]:
    """Replace the clusters that are neither leased nor pinned, and return the ids of the drafts."""
    held = and_(clusters.c.holder.is_not(None), clusters.c.held_until > datetime.now(UTC))
    kept = select(clusters.c.id).where(or_(clusters.c.pinned, held))
    kept_ids = set(connection.execute(kept).scalars())
    connection.execute(
        update(samples)
        .where(samples.c.cluster_id.is_not(None), samples.c.cluster_id.not_in(kept))
        .values(cluster_id=None, cluster_rank=None)
    )
    known = set(connection.execute(select(clusters.c.id)).scalars())
    ids: list[int] = []
    rows = []
    for draft in drafts:
        if draft.id is not None and draft.id in kept_ids:
            ids.append(draft.id)
            continue
        if draft.id is not None and draft.id in known:
            ids.append(draft.id)
        else:
            ids.append(create(connection, draft.medoid, pinned=False))
        found = {name: getattr(draft, name) for name in ("medoid", "purity", "novelty", "loose")}
        connection.execute(update(clusters).where(clusters.c.id == ids[-1]).values(found))
        rows += [{"b_id": i, "b_to": ids[-1], "b_rank": rank} for rank, i in enumerate(draft.members)]
    if rows:
        connection.execute(
            update(samples)
            .where(samples.c.id == bindparam("b_id"), samples.c.cluster_id.is_(None))
            .values(cluster_id=bindparam("b_to"), cluster_rank=bindparam("b_rank")),
            rows,
        )
    return ids


def create(connection: Connection, medoid: int, *, pinned: bool) -> int:
    """Create an empty cluster and return its id."""
    row = {"medoid": medoid, "pinned": pinned, "created_at": datetime.now(UTC)}
    return int(connection.execute(insert(clusters).returning(clusters.c.id), row).scalar_one())


def move(connection: Connection, sample_ids: Sequence[int], into: int) -> None:
    """Move samples into a cluster and pin it, so that the clustering job does not change it."""
    for some in chunks(sample_ids):
        connection.execute(update(samples).where(samples.c.id.in_(some)).values(cluster_id=into))
    estimates = {"purity": None, "novelty": None, "loose": False}
    connection.execute(update(clusters).where(clusters.c.id == into).values(pinned=True, **estimates))


def move_back(connection: Connection, moved: Mapping[str, Sequence[int]], out_of: int) -> None:
    """Move samples back to their previous clusters, except those that are no longer in `out_of`."""
    for cluster_id, sample_ids in moved.items():
        for some in chunks(sample_ids):
            connection.execute(
                update(samples)
                .where(samples.c.id.in_(some), samples.c.cluster_id == out_of)
                .values(cluster_id=int(cluster_id))
            )


# -- leases ---------------------------------------------------------------------------------------


def lease(connection: Connection, cluster_id: int, who: str, seconds: float) -> bool:
    """Lease a cluster; return False if another person holds it or it does not exist."""
    if abs(cluster_id) > LARGEST_ID:
        return False
    now = datetime.now(UTC)
    free = or_(clusters.c.holder.is_(None), clusters.c.held_until <= now, clusters.c.holder == who)
    result = connection.execute(
        update(clusters)
        .where(clusters.c.id == cluster_id, free)
        .values(holder=who, held_until=now + timedelta(seconds=seconds))
    )
    return result.rowcount == 1


def release(connection: Connection, cluster_id: int, who: str) -> bool:
    """End a lease, and return whether the person held it."""
    if abs(cluster_id) > LARGEST_ID:
        return False
    result = connection.execute(
        update(clusters)
        .where(clusters.c.id == cluster_id, clusters.c.holder == who)
        .values(holder=None, held_until=None)
    )
    return result.rowcount == 1


def held_by_others(connection: Connection, sample_ids: Sequence[int], who: str) -> str | None:
    """Return the name of another person who holds a cluster of one of the samples, or None."""
    now = datetime.now(UTC)
    for some in chunks(sample_ids):
        holder: str | None = connection.execute(
            select(clusters.c.holder)
            .join(samples, samples.c.cluster_id == clusters.c.id)
            .where(samples.c.id.in_(some), clusters.c.holder != who, clusters.c.held_until > now)
            .limit(1)
        ).scalar_one_or_none()
        if holder is not None:
            return holder
    return None
