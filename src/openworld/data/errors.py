"""The error that every reader of data raises."""

from __future__ import annotations


class DataError(ValueError):
    """Data that cannot be used; the text says which file, where in it, and what to do."""
