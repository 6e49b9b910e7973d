"""The living system: a recognizer that serves while it learns, its pool, its people and their history."""

from __future__ import annotations
