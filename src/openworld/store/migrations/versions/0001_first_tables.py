"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from openworld.store.tables import UtcTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create all tables."""
    _create_people_and_models()
    _create_samples()


def _create_people_and_models() -> None:
    op.create_table(
        "clusters",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("medoid", sa.Integer(), nullable=False),
        sa.Column("pinned", sa.Boolean(), nullable=False),
        sa.Column("holder", sa.Text()),
        sa.Column("held_until", UtcTime()),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_clusters")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "descriptions",
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("label", name=op.f("pk_descriptions")),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", UtcTime(), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("undoes", sa.Integer()),
        sa.Column("model_version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["undoes"], ["events.id"], name=op.f("fk_events_undoes")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_events_undoes"), "events", ["undoes"], unique=False)
    op.create_table(
        "keys",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("revoked_at", UtcTime()),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_keys")),
        sa.UniqueConstraint("hash", name=op.f("uq_keys_hash")),
    )
    op.create_table(
        "snapshots",
        sa.Column("history", sa.String(length=64), nullable=False),
        sa.Column("is_base", sa.Boolean(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("history", name=op.f("pk_snapshots")),
    )
    op.create_table(
        "versions",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("event_id", sa.Integer()),
        sa.Column("history", sa.String(length=64), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("summary", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["event_id"], ["events.id"], name=op.f("fk_versions_event_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_versions")),
    )


def _create_samples() -> None:
    op.create_table(
        "samples",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("content_hash", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("text", sa.Text()),
        sa.Column("source", sa.Text()),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("seen", sa.Integer(), nullable=False),
        sa.Column("model_version", sa.Integer(), nullable=False),
        sa.Column("answer", sa.Text()),
        sa.Column("decision", sa.Float(precision=53), nullable=False),
        sa.Column("membership", sa.Float(precision=53), nullable=False),
        sa.Column("nearest_label", sa.Text()),
        sa.Column("nearest", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("label", sa.Text()),
        sa.Column("who", sa.Text()),
        sa.Column("labelled_at", UtcTime()),
        sa.Column("event_id", sa.Integer()),
        sa.Column("cluster_id", sa.Integer()),
        sa.Column("cluster_rank", sa.Integer()),
        sa.Column("has_thumbnail", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=op.f("fk_samples_cluster_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_samples")),
        sa.UniqueConstraint("content_hash", name=op.f("uq_samples_content_hash")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        op.f("ix_samples_cluster_id_cluster_rank"), "samples", ["cluster_id", "cluster_rank"], unique=False
    )
    op.create_index(op.f("ix_samples_label_id"), "samples", ["label", "id"], unique=False)
    op.create_index(op.f("ix_samples_nearest_label_id"), "samples", ["nearest_label", "id"], unique=False)
    op.create_index(op.f("ix_samples_state_id"), "samples", ["state", "id"], unique=False)
    op.create_table(
        "features",
        sa.Column("sample_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("dtype", sa.String(length=16), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["sample_id"], ["samples.id"], name=op.f("fk_features_sample_id")),
        sa.PrimaryKeyConstraint("sample_id", name=op.f("pk_features")),
    )
    op.create_table(
        "thumbnails",
        sa.Column("sample_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["sample_id"], ["samples.id"], name=op.f("fk_thumbnails_sample_id")),
        sa.PrimaryKeyConstraint("sample_id", name=op.f("pk_thumbnails")),
    )
