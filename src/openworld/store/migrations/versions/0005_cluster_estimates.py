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
    # Not as a batch: that makes the table again, which SQLite refuses while samples refer to it.
    op.add_column("clusters", sa.Column("purity", sa.Float()))
    op.add_column("clusters", sa.Column("novelty", sa.Float()))
    op.add_column("clusters", sa.Column("loose", sa.Boolean(), nullable=False, server_default=sa.false()))
