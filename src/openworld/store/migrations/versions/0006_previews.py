"""Previews: pictures of samples that are large enough to judge."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "previews",
        sa.Column("sample_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["sample_id"], ["samples.id"], name=op.f("fk_previews_sample_id")),
        sa.PrimaryKeyConstraint("sample_id", name=op.f("pk_previews")),
    )
