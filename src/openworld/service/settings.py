"""How a world works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WorldSettings:
    """How a world works; the defaults suit one machine.

    Attributes
    ----------
    n_nearest : int
        Runner-up classes that an answer names.
    lease_seconds : float
        How long a cluster stays with a person who does nothing.
    snapshot_events, snapshot_seconds : int, float
        A snapshot is made when so many acts, or acts that took so long, would have to be learnt again; of a
        model that takes long to write, when it would take ten times as long to learn them.
    snapshots_kept : int
        Snapshots kept beside the first model.
    rescore_batch : int
        Samples of the pool judged at a time after a change.
    """

    n_nearest: int = 5
    lease_seconds: float = 120.0
    snapshot_events: int = 200
    snapshot_seconds: float = 2.0
    snapshots_kept: int = 3
    rescore_batch: int = 256
