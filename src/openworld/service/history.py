"""Which acts are in force: the log folded over undo, redo and going back to a version.

The log only grows. The model is a function of the acts in force, so undoing an act means folding without it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from openworld.store.log import Entry

LEARNING = frozenset({"learn", "label", "accept", "rename", "merge", "forget"})
OTHER = frozenset({"describe", "dismiss", "merge_clusters", "split_cluster"})
UNDOABLE = LEARNING | OTHER | {"activate"}


@dataclass(frozen=True)
class Line:
    """What deciding about an act needs to know of it.

    `target` is, for going back to a version, the act that made that version, 0 for the first model.
    """

    id: int
    kind: str
    who: str
    digest: str
    undoes: int | None
    target: int

    @classmethod
    def of(cls, entry: Entry) -> Line:
        """Return the line of a log entry."""
        target = entry.payload["event"] if entry.kind == "activate" else 0
        return cls(entry.id, entry.kind, entry.who, entry.digest, entry.undoes, target)


def undone(lines: Sequence[Line]) -> dict[int, int]:
    """Return, for each act that is undone, the act that does so. What is itself undone undoes nothing."""
    by: dict[int, int] = {}
    for line in reversed(lines):
        if line.undoes is not None and line.id not in by:
            by[line.undoes] = line.id
    return by


def learnt(lines: Sequence[Line]) -> list[int]:
    """Return the learning acts in force, ascending: they make the model.

    Going back to a version brings back the acts that were in force then, and what was undone before no longer
    counts; undoing that returns to where one was.
    """
    by = undone(lines)
    start = max(
        (i for i, line in enumerate(lines) if line.kind == "activate" and line.id not in by), default=-1
    )
    acts: dict[int, None] = {}
    if start >= 0:
        acts = dict.fromkeys(learnt([line for line in lines[:start] if line.id <= lines[start].target]))
    for line in lines[start + 1 :]:
        if line.id in by:
            continue
        if line.kind in LEARNING:
            acts[line.id] = None
        elif line.kind == "undo" and line.undoes is not None:
            acts.pop(line.undoes, None)
    return list(acts)


def in_force(lines: Sequence[Line]) -> list[int]:
    """Return all acts in force, ascending: with those that change the labels but not the model."""
    by = undone(lines)
    others = [line.id for line in lines if line.kind in OTHER and line.id not in by]
    return sorted(learnt(lines) + others)


def last_act(lines: Sequence[Line], who: str) -> int | None:
    """Return the last act of a person that can be undone."""
    by, acts = undone(lines), set(in_force(lines))
    for line in reversed(lines):
        going_back = line.kind == "activate" and line.id not in by
        if line.who == who and (line.id in acts or going_back):
            return line.id
    return None


def last_undo(lines: Sequence[Line], who: str) -> int | None:
    """Return the last undo of a person that can be taken back: none once they have acted again."""
    by = undone(lines)
    for line in reversed(lines):
        if line.who != who or line.kind == "redo":
            continue
        if line.kind != "undo":
            return None
        if line.id not in by:
            return line.id
    return None


def chain(base: str, digests: Sequence[str]) -> list[str]:
    """Return the hash of each beginning of a history, from the first model alone to the whole."""
    return list(accumulate(digests, link, initial=base))


def link(history: str, digest: str) -> str:
    """Return the hash of a history with one more act."""
    return hashlib.sha256(f"{history} {digest}".encode()).hexdigest()
