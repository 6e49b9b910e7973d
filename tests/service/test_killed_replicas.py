"""Three real servers on one PostgreSQL under load, killed at random: all models stay the same."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from openworld import save
from openworld.client import Client, Outcome, ServiceError
from openworld.model_file import loads
from openworld.service.event_log import model_change
from openworld.service.live_model import apply_change, copy
from openworld.service.undo import EventHeader, model_events
from openworld.store import Database, events
from openworld.store.samples import features_of

Draw = Callable[..., NDArray[np.float32]]

KILLS = 5
ALLOWED = {404, 409, 422}  # what another did first, or what does not fit what another did
CONFIG = "clustering = false\nlog_level = 'error'\n"


class Server:
    """A process of `openworld serve` that is killed and started again."""

    def __init__(self, *arguments: str) -> None:
        self._command = [sys.executable, "-c", "from openworld.cli import main; main()", "serve", *arguments]
        self._command += ["--port", "0"]
        self._reading = threading.Lock()
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        self._address = ""

    @property
    def address(self) -> str:
        """Where it listens; waits until it does. Empty when it was killed before."""
        with self._reading:
            if not self._address and self._process.stdout is not None:
                line = self._process.stdout.readline()
                self._address = line.split()[3] if "http://" in line else ""
            return self._address

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        with self._reading:
            assert self._process.stdout is not None
            self._process.stdout.close()


class People(threading.Thread):
    """Someone who works with one server, whatever happens to it, and remembers what it acknowledged."""

    def __init__(self, server: Server, number: int, things: Draw, stop: threading.Event) -> None:
        super().__init__()
        self._server, self._number, self._things, self._stop_it = server, number, things, stop
        self._chance = random.Random(number)
        self.acts: dict[int, str] = {}
        self.stored: set[int] = set()
        self.lost = 0
        self.failures: list[str] = []

    def run(self) -> None:
        numbers = count()
        while not self._stop_it.is_set():
            try:
                with Client(self._server.address) as client:
                    while not self._stop_it.wait(0.03):
                        self._act(client, next(numbers))
            except (httpx.TransportError, ValueError, httpx.UnsupportedProtocol):  # killed in the middle
                self.lost += 1
                sleep(0.05)

    def _act(self, client: Client, i: int) -> None:
        try:
            outcome = self._do_something(client, i)
        except ServiceError as error:
            if error.status not in ALLOWED:
                self.failures.append(str(error))
        else:
            if outcome["event_id"] is not None:
                self.acts[outcome["event_id"]] = outcome["kind"]

    def _do_something(self, client: Client, i: int) -> Outcome:
        kind = self._chance.randrange(3, 12)
        found = client.recognize(self._things(kind, 3, 100_000 * self._number + i))
        self.stored.update(answer["sample_id"] for answer in found["answers"] if answer["sample_id"])
        what = self._chance.randrange(6)
        if what == 0:
            return client.undo()
        if what == 1:
            return client.dismiss([sample["id"] for sample in client.pool(limit=2)["samples"]], "blurred")
        if what <= 3:
            ids = [sample["id"] for sample in client.pool(limit=3)["samples"]]
            return client.label(ids, f"k{self._chance.randrange(3, 12)}")
        new = self._things(kind, 2, 200_000 * (self._number + 1) + i)
        return client.learn(new, [f"k{kind}"] * 2)


@contextmanager
def servers(*arguments: str) -> Iterator[list[Server]]:
    with ExitStack() as stack:
        found = [Server(*arguments) for _ in range(3)]
        for server in found:
            stack.callback(server.kill)
        yield found


def test_killed_at_random_under_load_all_are_the_same(
    postgres_url: str, tmp_path: Path, models: Callable[[str], Any], things: Draw, state_of: Any
) -> None:
    base = models("0.1")
    save(base, tmp_path / "model.ow")
    (tmp_path / "settings.toml").write_text(CONFIG)
    chance, stop = random.Random(5), threading.Event()
    arguments = [str(tmp_path / "model.ow"), "--database", postgres_url]
    with servers(*arguments, "--config", str(tmp_path / "settings.toml")) as found:
        people = [People(server, i, things, stop) for i, server in enumerate(found)]
        for person in people:
            person.start()
        for _ in range(KILLS):
            server = chance.choice(found)
            assert server.address  # it is up, and others may not be
            sleep(chance.uniform(0.3, 1.0))
            server.kill()
            server.start()
        assert all(server.address for server in found)
        sleep(0.5)
        stop.set()
        for person in people:
            person.join()
        versions, states = _where_all_are(found, state_of)
    assert [failure for person in people for failure in person.failures] == []
    assert len(set(versions)) == 1
    acts = {event: kind for person in people for event, kind in person.acts.items()}
    assert len(acts) >= 3 * KILLS
    assert sum(person.lost for person in people) > 0  # it did happen under load
    assert states == [_refitted(postgres_url, base, acts, people, state_of)] * 3


def _where_all_are(found: list[Server], state_of: Any) -> tuple[list[int], list[Any]]:
    """Return version and model of each server, once they agree on the version, or after a while."""
    end = monotonic() + 20
    while True:
        versions = []
        for server in found:
            with Client(server.address) as client:
                versions.append(client.recognize(np.zeros((1, 4)), remember=False)["model_version"])
        if len(set(versions)) == 1 or monotonic() > end:
            break
        sleep(0.05)
    states = []
    for server in found:
        with Client(server.address) as client:
            states.append(state_of(loads(client.export_model())))
    return versions, states


def _refitted(url: str, base: Any, acts: dict[int, str], people: list[People], state_of: Any) -> Any:
    """Teach the first model what the log says, and see that the log has all that was acknowledged."""
    database = Database(url)
    model = copy(base)
    with database.read() as connection:
        records = {record.id: record for record in events.read_after(connection, 0)}
        assert acts.items() <= {record.id: record.kind for record in records.values()}.items()
        stored = set().union(*(person.stored for person in people))
        assert len(features_of(connection, sorted(stored))) == len(stored)
        labelled: Counter[int] = Counter()
        for act in model_events([EventHeader.of(record) for record in records.values()]):
            apply_change(model, model_change(connection, records[act]))
            labelled.update(records[act].payload["samples"])
        assert max(labelled.values()) == 1  # nobody's label was overwritten by another's
    database.close()
    return state_of(model)


def test_workers_follow_each_other(postgres_url: str, tmp_path: Path, models: Any, things: Draw) -> None:
    """Two processes at one address: what one has learnt the other knows."""
    save(models("nno"), tmp_path / "model.ow")
    server = Server(str(tmp_path / "model.ow"), "--database", postgres_url, "--workers", "2")
    try:
        with Client(server.address) as client:
            client.learn(things(5, 3), ["teapot"] * 3)
        in_a_row, n_known, end = 0, 0, monotonic() + 300
        while in_a_row < 20 and monotonic() < end:
            with Client(server.address) as client:  # a new connection, so either process
                label = client.recognize(things(5, 1, 7), remember=False)["answers"][0]["label"]
            in_a_row = in_a_row + 1 if label == "teapot" else 0
            n_known += label is not None
        assert in_a_row == 20
        # of both processes, whichever answers
        seen = httpx.get(f"{server.address}/metrics", timeout=300).text
        assert sum(1 for line in seen.splitlines() if line.startswith("openworld_samples_total")) == 2
        known = next(line for line in seen.splitlines() if 'openworld_samples_total{answer="known"}' in line)
        assert float(known.split()[1]) == n_known
    finally:
        server.kill()
    end = monotonic() + 300
    while monotonic() < end:  # the workers end with it, though it could not tell them
        try:
            httpx.get(server.address, timeout=1)
        except httpx.ConnectError:
            break
        except httpx.TransportError:
            pass
        sleep(0.1)
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.address, timeout=300)
