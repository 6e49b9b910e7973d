"""Groups: samples that are near copies of each other have the same."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; the samples there are have no group."""
    op.add_column("samples", sa.Column("group_name", sa.Text()))
