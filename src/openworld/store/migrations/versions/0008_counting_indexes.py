"""Indexes by which pages count samples: of each cluster, and of each person."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the indexes."""
    op.create_index("ix_samples_state_cluster_id", "samples", ["state", "cluster_id"])
    op.create_index("ix_samples_who_state", "samples", ["who", "state"])
