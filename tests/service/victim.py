"""A program that works with a world until it is killed: it recognizes in one thread and labels in another.

Usage: victim.py URL MODEL SEED. It begins when a line comes on its standard input, and writes a line of
JSON for everything that the world has acknowledged: ``["stored", [ids]]``, or
``["event", event, kind, version, digest of the answers on the probe]``.
"""

from __future__ import annotations

import hashlib
import json
import random
import runpy
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openworld.service.settings import WorldSettings
from openworld.service.validation import Conflict, NotFound, Refused
from openworld.service.world import World
from openworld.service.world_event import EventOutcome

SETTINGS = WorldSettings(snapshot_events=4, snapshots_kept=2, rescore_batch=8)
things = runpy.run_path(str(Path(__file__).with_name("things.py")))["draw"]
PROBE: NDArray[np.float32] = np.vstack([things(kind, 2, 9) for kind in range(12)])


def digest(decision: NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(decision).tobytes()).hexdigest()


_telling = threading.Lock()


def _tell(*words: Any) -> None:
    with _telling:
        print(json.dumps(words), flush=True)


def _recognize(world: World, seed: int) -> None:
    for i in range(10**9):
        answers = world.recognize(things(3 + i % 9, 3, 100_000 * seed + i))
        _tell("stored", [sample for sample in answers.sample_ids if sample is not None])


def _append(world: World, chance: random.Random, number: int) -> EventOutcome:
    kind, name = chance.randrange(3, 12), f"k{chance.randrange(3, 12)}"
    match chance.randrange(8):
        case 0:
            return world.history.undo("ann")
        case 1:
            return world.history.redo("ann")
        case 2:
            return world.classes.rename(f"k{kind}", f"{name}x{number}", "ann")
        case 3:
            return world.labels.dismiss([s.id for s in world.pool.page(limit=2).samples], "", "ann")
        case 4:
            return world.history.rollback(chance.randrange(world.model.version + 1), "ann")
        case 5:
            return world.labels.label([s.id for s in world.pool.page(limit=3).samples], name, "ann")
        case _:
            return world.labels.learn(things(kind, 2, number), [f"k{kind}"] * 2, "ann")


def _live(url: str, model: str, seed: int) -> None:
    world = World.open(url, model, SETTINGS)
    threading.Thread(target=_recognize, args=(world, seed), daemon=True).start()
    chance = random.Random(seed)
    for i in range(10**9):
        try:
            outcome = _append(world, chance, 50_000 * seed + i)
        except (Refused, NotFound, Conflict):
            continue
        answers = world.recognize(PROBE, remember=False)
        _tell(
            "event", outcome.event_id, outcome.kind, answers.model_version, digest(answers.judgement.decision)
        )


if __name__ == "__main__":
    sys.stdin.readline()
    _live(sys.argv[1], sys.argv[2], int(sys.argv[3]))
