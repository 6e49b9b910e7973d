"""Kill a service under load, cut it off from its database, fill its disk; then replay its log and compare.

    python -m benchmarks.reliability --rounds 4                          # SQLite, 20 kills
    python -m benchmarks.reliability --database postgresql --repeat 40   # three servers, 40 x 5 x 5 kills
    python -m benchmarks.reliability --fault full-disk
    python -m benchmarks.reliability --fault terminate --database postgresql

A round is some faults under load, then a pause in which all servers must come to the model that the log
describes. A PostgreSQL is started from the wheel that the tests use, with nothing to set up.
"""

from __future__ import annotations

import argparse
import random
import runpy
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

import numpy as np
from sqlalchemy import create_engine, make_url, text

from benchmarks.reliability.faults import IN_PROCESS
from benchmarks.reliability.load import Person, Server, first_model
from benchmarks.reliability.replay import replay
from openworld.client import Client
from openworld.model_file import digest

_POSTGRES = Path(__file__).parents[2] / "tests" / "store" / "postgres_server.py"
_PATIENCE = 120.0
_MOST_WORK = 15  # requests between two faults
_ONLY_ON = {"full-disk": "sqlite", "slow-disk": "sqlite", "failing-disk": "sqlite"}
_ONLY_ON |= {"terminate": "postgresql", "away": "postgresql"}
_SOCKET, _HIDDEN_SOCKET = ".s.PGSQL.5432", ".s.PGSQL.5433"


@dataclass
class Report:
    """What campaigns did and found; `sound` is what is promised."""

    faults: int = 0
    rounds: int = 0
    requests: int = 0
    acknowledged: int = 0
    stored: int = 0
    cut_off: int = 0
    unavailable: int = 0
    missing_events: int = 0
    missing_samples: int = 0
    servers_that_differ: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Nothing acknowledged is missing, and every server has the model that the log describes."""
        return not (self.missing_events or self.missing_samples or self.servers_that_differ or self.failures)

    def __add__(self, other: Report) -> Report:
        return Report(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def __str__(self) -> str:
        return (
            f"faults {self.faults} in {self.rounds} rounds, requests {self.requests}, "
            f"cut off {self.cut_off}, answered 503 {self.unavailable}\n"
            f"acknowledged events {self.acknowledged}, acknowledged samples {self.stored}\n"
            f"missing events {self.missing_events}, missing samples {self.missing_samples}, "
            f"servers whose model is not the log's {self.servers_that_differ}, "
            f"other failures {self.failures[:3]}\n"
            f"{'sound' if self.sound else 'NOT SOUND'}"
        )


def campaign(
    url: str, n_servers: int, *, faults: int = 5, rounds: int = 1, fault: str = "kill", seed: int = 0
) -> Report:
    """Run servers on a new database under load, do something bad to them, and compare after each round."""
    chance, people, n_different = random.Random(seed), list[Person](), 0
    with TemporaryDirectory() as folder:
        model = first_model(Path(folder))
        servers = [Server(model, url) for _ in range(n_servers)]
        try:
            for _ in range(rounds):
                numbers = range(len(people), len(people) + n_servers)
                people += _round(servers, numbers, url, fault, faults, chance)
                models, (expected, events, samples) = _models(servers), replay(url)
                n_different += sum(found != expected for found in models)
        finally:
            for server in servers:
                server.kill()
    acknowledged = {event: kind for person in people for event, kind in person.acknowledged.items()}
    stored = set().union(*(person.stored for person in people))
    return Report(
        faults * rounds,
        rounds,
        sum(person.n_requests for person in people),
        len(acknowledged),
        len(stored),
        sum(person.n_lost for person in people),
        sum(person.n_unavailable for person in people),
        sum(events.get(event) != kind for event, kind in acknowledged.items()),
        len(stored - samples),
        n_different,
        [failure for person in people for failure in person.failures],
    )


def _round(
    servers: list[Server], numbers: range, url: str, fault: str, faults: int, chance: random.Random
) -> list[Person]:
    """Let one person work with each server while faults happen; return the people."""
    stop = threading.Event()
    people = [Person(server, number, stop) for server, number in zip(servers, numbers, strict=True)]
    for person in people:
        person.start()
    try:
        for _ in range(faults):
            server, person = chance.choice(list(zip(servers, people, strict=True)))
            assert server.address, "a server did not start again"
            _wait_for_work(person, chance.randrange(_MOST_WORK))
            sleep(chance.uniform(0, 0.2))
            _harm(server, person, url, fault, chance)
        assert all(server.address for server in servers), "a server did not start again"
        sleep(0.5)
    finally:
        stop.set()
        for person in people:
            person.join()
    return people


def _wait_for_work(person: Person, n: int) -> None:
    """Wait for some more requests: a slow machine has as many of them between faults as a fast one."""
    enough = person.n_requests + n
    while person.n_requests < enough and person.is_alive():
        sleep(0.01)


def _harm(server: Server, person: Person, url: str, fault: str, chance: random.Random) -> None:
    if fault == "terminate":
        _terminate(url)
    elif fault == "away":
        folder = Path(str(make_url(url).query["host"]))
        (folder / _SOCKET).rename(folder / _HIDDEN_SOCKET)
        _terminate(f"{url}&port=5433")
        sleep(chance.uniform(0.5, 3.0))
        (folder / _HIDDEN_SOCKET).rename(folder / _SOCKET)
    else:
        server.kill()
        if fault in IN_PROCESS:
            file = Path(url.removeprefix("sqlite:///"))
            server.start(fault, file.stat().st_size if file.is_file() else 0)
            if server.address:
                _wait_for_work(person, 2 * _MOST_WORK)
            server.kill()
        server.start()


def _terminate(url: str) -> None:
    """End every connection of every server, as when the database is restarted."""
    engine = create_engine(url)
    with engine.connect() as connection:
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
    engine.dispose()


def _models(servers: list[Server]) -> list[str]:
    """Return the checksum of each server's model, once all answer from the same version."""
    end = monotonic() + _PATIENCE
    while True:
        versions, models = [], []
        for server in servers:
            with Client(server.address) as client:
                found = client.recognize(np.zeros((1, 4)), remember=False)
                versions.append(found["model_version"])
                models.append(digest(client.export_model()))
        if len(set(versions)) == 1:
            return models
        if monotonic() > end:
            raise TimeoutError(f"The servers answer from versions {versions}, long after the last event.")
        sleep(0.1)


@contextmanager
def _database(kind: str) -> Iterator[tuple[str, int]]:
    """Give the address of a new database and how many servers it has."""
    if kind == "sqlite":
        with TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/world.db", 1
        return
    postgres = runpy.run_path(str(_POSTGRES))
    with postgres["running"]() as folder:
        yield postgres["new_database"](folder), 3


def main() -> None:
    """Run campaigns from the command line; the exit code is 1 if one was not sound."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reliability")
    parser.add_argument("--database", choices=["sqlite", "postgresql"])
    parser.add_argument("--fault", choices=["kill", "terminate", "away", *IN_PROCESS], default="kill")
    parser.add_argument("--faults", type=int, default=5, help="in a round")
    parser.add_argument("--rounds", type=int, default=5, help="on one database")
    parser.add_argument("--repeat", type=int, default=1, help="with a new database each")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    kind = given.database or _ONLY_ON.get(given.fault, "sqlite")
    if _ONLY_ON.get(given.fault, kind) != kind:
        parser.error(f"{given.fault} is not for {kind}")
    report = Report()
    for seed in range(given.seed, given.seed + given.repeat):
        with _database(kind) as (url, n_servers):
            report += campaign(
                url, n_servers, faults=given.faults, rounds=given.rounds, fault=given.fault, seed=seed
            )
        print(f"{kind}, {n_servers} servers, {given.fault}, up to seed {seed}: {report}", flush=True)
    sys.exit(not report.sound)


if __name__ == "__main__":
    main()
