"""Estimates of how pure and how new clusters are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns."""
    with op.batch_alter_table("clusters") as table:
        table.add_column(sa.Column("purity", sa.Float()))
        table.add_column(sa.Column("novelty", sa.Float()))
        table.add_column(sa.Column("loose", sa.Boolean(), nullable=False, server_default=sa.false()))
