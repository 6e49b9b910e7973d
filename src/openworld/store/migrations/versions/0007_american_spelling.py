"""American spelling: the state `labeled`, its time, and the role `labeler`."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Rename the column, and the values in place."""
    op.execute("ALTER TABLE samples RENAME COLUMN labelled_at TO labeled_at")
    op.execute("UPDATE samples SET state = 'labeled' WHERE state = 'labelled'")
    op.execute("UPDATE keys SET role = 'labeler' WHERE role = 'labeller'")
