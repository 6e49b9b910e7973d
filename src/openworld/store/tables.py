"""Database tables. Every change needs a migration; a test compares tables and migrations."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    false,
)
from sqlalchemy.types import TypeDecorator


class UtcTime(TypeDecorator[datetime]):
    """A time, stored as seconds since 1970, which is the same in every database and time zone."""

    impl = Float(53)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> float | None:
        """Return the seconds of a time."""
        return None if value is None else value.timestamp()

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Return the time of the seconds."""
        return None if value is None else datetime.fromtimestamp(value, UTC)


LARGEST_ID = 2**31 - 1  # limit of the integer columns


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# Features and pictures have their own tables, so lists do not read them and a change of state does not write
# them again.
samples = Table(
    "samples",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("content_hash", String(64), nullable=False, unique=True),
    Column("kind", String(16), nullable=False),
    Column("text", Text),
    Column("source", Text),
    Column("created_at", UtcTime, nullable=False),
    Column("seen", Integer, nullable=False),
    Column("model_version", Integer, nullable=False),
    Column("answer", Text),
    Column("decision", Float(53), nullable=False),
    Column("membership", Float(53), nullable=False),
    Column("nearest_label", Text),
    Column("nearest", JSON, nullable=False),
    Column("state", String(16), nullable=False),
    Column("label", Text),
    Column("who", Text),
    Column("labeled_at", UtcTime),
    Column("event_id", Integer),
    Column("cluster_id", Integer, ForeignKey("clusters.id")),
    Column("cluster_rank", Integer),
    Column("has_thumbnail", Boolean, nullable=False),
    Column("kept", String(16)),
    Column("group_name", Text, key="group"),
    Index(None, "state", "id"),
    Index(None, "state", "cluster_id"),
    Index(None, "who", "state"),
    Index(None, "state", "answer", "membership", "id"),
    Index(None, "label", "id"),
    Index(None, "cluster_id", "cluster_rank"),
    Index(None, "nearest_label", "id"),
    sqlite_autoincrement=True,
)

features = Table(
    "features",
    metadata,
    Column("sample_id", Integer, ForeignKey("samples.id"), primary_key=True, autoincrement=False),
    Column("dtype", String(16), nullable=False),
    Column("data", LargeBinary, nullable=False),
)

thumbnails = Table(
    "thumbnails",
    metadata,
    Column("sample_id", Integer, ForeignKey("samples.id"), primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)

# Pictures of samples, large enough for a person to judge them; the oldest are deleted first.
previews = Table(
    "previews",
    metadata,
    Column("sample_id", Integer, ForeignKey("samples.id"), primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)

clusters = Table(
    "clusters",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("medoid", Integer, nullable=False),
    Column("pinned", Boolean, nullable=False),
    Column("holder", Text),
    Column("held_until", UtcTime),
    Column("created_at", UtcTime, nullable=False),
    # Estimates of the clustering job; NULL for a cluster that a person made.
    Column("purity", Float),
    Column("novelty", Float),
    Column("loose", Boolean, nullable=False, server_default=false()),
    sqlite_autoincrement=True,
)

# Rows are appended and never changed: an undo is a later row.
events = Table(
    "events",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", UtcTime, nullable=False),
    Column("who", Text, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("payload", JSON, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("undoes", Integer, ForeignKey("events.id"), index=True),
    Column("model_version", Integer, nullable=False),
    sqlite_autoincrement=True,
)

# The server assigns the number, one above the last. If two servers assign the same number, one of them fails.
versions = Table(
    "versions",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("event_id", Integer, ForeignKey("events.id")),
    Column("history", String(64), nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("summary", JSON, nullable=False),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("history", String(64), primary_key=True),
    Column("is_base", Boolean, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

descriptions = Table(
    "descriptions",
    metadata,
    Column("label", Text, primary_key=True),
    Column("text", Text, nullable=False),
)

keys = Table(
    "keys",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("role", String(16), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    Column("created_at", UtcTime, nullable=False),
    Column("revoked_at", UtcTime),
)

idempotency_keys = Table(
    "requests",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("at", UtcTime, nullable=False, index=True),
    Column("digest", String(64), nullable=False),
    Column("answer", Text, nullable=False),
)

# Named values that all servers of this database share, such as the secret of session cookies.
shared_values = Table(
    "kept",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("data", LargeBinary, nullable=False),
)
