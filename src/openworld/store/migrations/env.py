"""Run by Alembic: bring the tables of the connection it is given up to date."""

from __future__ import annotations

from alembic import context

from openworld.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True
)
with context.begin_transaction():
    context.run_migrations()
