"""The store: samples, clusters, events and models in SQLite or PostgreSQL."""

from __future__ import annotations

from openworld.store.database import Database
from openworld.store.storage import StorageError

__all__ = ["Database", "StorageError"]
