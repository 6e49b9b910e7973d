"""Why a recognized sample is kept."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, and the index that lists recognized samples by class and certainty."""
    op.add_column("samples", sa.Column("kept", sa.String(length=16), nullable=True))
    op.create_index(
        op.f("ix_samples_state_answer_membership_id"),
        "samples",
        ["state", "answer", "membership", "id"],
        unique=False,
    )
