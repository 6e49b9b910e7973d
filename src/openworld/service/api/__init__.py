"""The HTTP API, one file per subject."""

from __future__ import annotations
