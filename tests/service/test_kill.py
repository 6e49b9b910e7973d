"""Killed at any moment under load, a world loses nothing it has acknowledged, and its model is the same."""

from __future__ import annotations

import json
import random
import runpy
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openworld import model_file
from openworld.service.events import EVENT_KINDS
from openworld.service.live_model import apply_change, copy
from openworld.service.replay import EventHeader, model_change, model_events
from openworld.service.world import World
from openworld.store import Database, events

PROGRAM = Path(__file__).with_name("victim.py")
_victim = runpy.run_path(str(PROGRAM))
SETTINGS, PROBE, digest = _victim["SETTINGS"], _victim["PROBE"], _victim["digest"]


class _Victim:
    """A process of its own, which starts at once and lives when it is told to."""

    def __init__(self, url: str, model: Path, seed: int) -> None:
        command = [sys.executable, str(PROGRAM), url, str(model), str(seed)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._lines: list[str] = []
        self._appended = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self._seed = seed

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)
            if line.startswith('["event", ') and not line.startswith('["event", null'):
                self._appended.set()

    def live_and_die(self) -> list[list[Any]]:
        """Kill it a moment after it has appended an event; return what it acknowledged."""
        assert self._process.stdin is not None
        self._process.stdin.write("live\n")
        self._process.stdin.flush()
        assert self._appended.wait(600)
        time.sleep(random.Random(self._seed).uniform(0, 0.8))
        assert self._process.poll() is None
        self.kill()
        whole = [line for line in self._lines if line.endswith("\n")]  # the last may be cut off
        return [json.loads(line) for line in whole]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


@contextmanager
def _victims(url: str, model: Path, n: int) -> Iterator[Iterator[_Victim]]:
    """Give one process after the other; the next one starts while one lives."""
    started: list[_Victim] = []

    def one_by_one() -> Iterator[_Victim]:
        for seed in range(n + 1):
            if seed < n:
                started.append(_Victim(url, model, seed))
            if seed:
                yield started[seed - 1]

    try:
        yield one_by_one()
    finally:
        for victim in started:
            victim.kill()


def test_nothing_acknowledged_is_lost(url: str, models: Callable[[str], Any], tmp_path: Path) -> None:
    base, path = copy(models("0.1")), tmp_path / "base.ow"
    model_file.save(base, path, exact=True)
    acknowledged: dict[int, str] = {}
    probes: dict[int, str] = {}
    stored: set[int] = set()
    n_kills = 4 if url.startswith("sqlite") else 2
    with _victims(url, path, n_kills) as victims:
        for victim in victims:
            for what, *words in victim.live_and_die():
                if what == "stored":
                    stored.update(words[0])
                else:
                    event_id, kind, version, answers = words
                    if event_id is not None:
                        acknowledged[event_id] = kind
                    assert probes.setdefault(version, answers) == answers
            with World.open(url, settings=SETTINGS) as world:
                written = {event.id: event.kind for event in world.history.export()}
                assert acknowledged.items() <= written.items()
                answers = digest(world.recognize(PROBE, remember=False).judgement.decision)
                assert probes.setdefault(world.model.version, answers) == answers
                assert len(world.pool.features(sorted(stored))) == len(stored)
    assert len(acknowledged) >= n_kills
    assert stored
    assert _replayed(url, base, set(probes)) == probes


def _replayed(url: str, base: Any, wanted: set[int]) -> dict[int, str]:
    """Return the answers of versions, each made by teaching the first model what the log says."""
    database = Database(url)
    found: dict[int, str] = {}
    with database.read() as connection:
        records = list(events.read_after(connection, 0))
        by_id = {record.id: record for record in records}
        made_by = {0: 0} | {v.id: v.event_id or 0 for v in events.version_list(connection, limit=10**6)}
        taught, model = [], copy(base)
        for version in sorted(wanted):
            ids = model_events(
                [EventHeader.of(record) for record in records if record.id <= made_by[version]]
            )
            if ids[: len(taught)] != taught:
                taught, model = [], copy(base)
            for event_id in ids[len(taught) :]:
                assert EVENT_KINDS[by_id[event_id].kind].changes_model
                apply_change(model, model_change(connection, by_id[event_id], frozenset()))
            taught = ids
            found[version] = digest(model.decision_function(PROBE).max(axis=1))
    database.close()
    return found
