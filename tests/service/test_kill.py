"""Killed at any moment under load, a world loses nothing it has acknowledged, and its model is the same."""

from __future__ import annotations

import hashlib
import multiprocessing
import random
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from openworld.service.acts import apply, step_of
from openworld.service.history import LEARNING, Line, learnt
from openworld.service.model_bytes import copy
from openworld.service.results import Conflict, NotFound, Refused
from openworld.service.settings import WorldSettings
from openworld.service.world import World
from openworld.store import Database, log
from openworld.store.samples import features_of

Draw = Callable[..., NDArray[np.float32]]
SETTINGS = WorldSettings(snapshot_events=4, snapshots_kept=2, rescore_batch=8)


def _digest(decision: NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(decision).tobytes()).hexdigest()


def _live(url: str, base: Any, things: Draw, probe: NDArray[np.float32], seed: int, acks: Connection) -> None:
    """Open the world, recognize in one thread and act in another, and tell what was acknowledged."""
    world = World.open(url, base, SETTINGS)
    telling = threading.Lock()

    def tell(*words: Any) -> None:
        with telling:
            acks.send(words)

    def recognize() -> None:
        for i in range(10**9):
            answers = world.recognize(things(3 + i % 9, 3, 100_000 * seed + i))
            tell("stored", [sample for sample in answers.sample_ids if sample is not None])

    threading.Thread(target=recognize, daemon=True).start()
    chance = random.Random(seed)
    for i in range(10**9):
        kind, name = chance.randrange(3, 12), f"k{chance.randrange(3, 12)}"
        try:
            match chance.randrange(8):
                case 0:
                    outcome = world.undo("ann")
                case 1:
                    outcome = world.redo("ann")
                case 2:
                    outcome = world.rename(f"k{kind}", f"{name}x{i}", "ann")
                case 3:
                    outcome = world.dismiss([s.id for s in world.pool(limit=2).samples], "", "ann")
                case 4:
                    outcome = world.activate(chance.randrange(world.version + 1), "ann")
                case 5:
                    outcome = world.label([s.id for s in world.pool(limit=3).samples], name, "ann")
                case _:
                    outcome = world.learn(things(kind, 2, 50_000 * seed + i), [f"k{kind}"] * 2, "ann")
        except (Refused, NotFound, Conflict):
            continue
        answers = world.recognize(probe, remember=False)
        tell("act", outcome.event_id, outcome.kind, answers.model_version, _digest(answers.decision))


def _kill_once(
    url: str, base: Any, things: Draw, probe: NDArray[np.float32], seed: int
) -> list[tuple[Any, ...]]:
    """Let a world live for a moment, kill it, and return what it had acknowledged."""
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe(duplex=False)
    process = fork.Process(target=_live, args=(url, base, things, probe, seed, theirs))
    process.start()
    theirs.close()
    acks = [ours.recv()]
    while acks[-1][0] != "act" or acks[-1][1] is None:
        acks.append(ours.recv())
    end = time.monotonic() + random.Random(seed).uniform(0, 0.8)
    while (left := end - time.monotonic()) > 0:
        if ours.poll(left):
            acks.append(ours.recv())
    process.kill()
    try:
        while True:
            acks.append(ours.recv())
    except (EOFError, OSError):  # the last message may be cut off
        pass
    process.join()
    return acks


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_nothing_acknowledged_is_lost(url: str, things: Draw, models: Callable[[str], Any]) -> None:
    base = copy(models("0.1"))
    probe = np.vstack([things(kind, 2, 9) for kind in range(12)])
    acts: dict[int, str] = {}
    probes: dict[int, str] = {}
    stored: set[int] = set()
    n_kills = 12 if url.startswith("sqlite") else 4
    for seed in range(n_kills):
        for what, *words in _kill_once(url, base, things, probe, seed):
            if what == "stored":
                stored.update(words[0])
            else:
                event_id, kind, version, digest = words
                if event_id is not None:
                    acts[event_id] = kind
                assert probes.setdefault(version, digest) == digest
        with World.open(url, settings=SETTINGS) as world:
            written = {event.id: event.kind for event in world.export_log()}
            assert acts.items() <= written.items()
            version = world.version
            digest = _digest(world.recognize(probe, remember=False).decision)
            assert probes.setdefault(version, digest) == digest
            assert len(world.features(sorted(stored))) == len(stored)
    assert len(acts) >= n_kills
    assert stored
    assert _replayed(url, base, probe, set(probes)) == probes


def _replayed(url: str, base: Any, probe: NDArray[np.float32], wanted: set[int]) -> dict[int, str]:
    """Return the answers of versions, each made by teaching the first model what the log says."""
    database = Database(url)
    found: dict[int, str] = {}
    with database.read() as connection:
        entries = list(log.entries_after(connection, 0))
        by_id = {entry.id: entry for entry in entries}
        events = {0: 0} | {v.id: v.event_id or 0 for v in log.version_list(connection, limit=10**6)}
        taught, model = [], copy(base)
        for version in sorted(wanted):
            acts = learnt([Line.of(entry) for entry in entries if entry.id <= events[version]])
            if acts[: len(taught)] != taught:
                taught, model = [], copy(base)
            for act in acts[len(taught) :]:
                assert by_id[act].kind in LEARNING
                apply(model, step_of(by_id[act], lambda ids: features_of(connection, ids)))
            taught = acts
            found[version] = _digest(model.decision_function(probe).max(axis=1))
    database.close()
    return found
