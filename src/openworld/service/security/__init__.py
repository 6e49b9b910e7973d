"""Who may do what: keys, sessions, limits, and refusal of what other sites ask a browser to do."""

from __future__ import annotations
