"""Kill a service under load, cut it off from its database, fill its disk; then replay its log and compare.

    python -m benchmarks.reliability                                   # 20 kills on SQLite
    python -m benchmarks.reliability --database postgresql --kills 500 # three servers on one PostgreSQL
    python -m benchmarks.reliability --fault full-disk --kills 5
    python -m benchmarks.reliability --fault terminate --database postgresql --kills 50

A PostgreSQL is started from the wheel that the tests use, with nothing to set up.
"""

from __future__ import annotations

import argparse
import random
import runpy
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

import numpy as np
from sqlalchemy import create_engine, text

from benchmarks.reliability.load import Person, Server, prepare
from benchmarks.reliability.replay import replay
from openworld.client import Client
from openworld.model_file import digest

_POSTGRES = Path(__file__).parents[2] / "tests" / "store" / "postgres_server.py"
_PATIENCE = 120.0
_FULL_AFTER = 100_000  # bytes that a server on a full disk may still write to a file


@dataclass
class Report:
    """What a campaign did and found; `sound` is what is promised."""

    kills: int
    requests: int
    acknowledged: int
    stored: int
    cut_off: int
    unavailable: int
    missing_events: int
    missing_samples: int
    servers_that_differ: int
    failures: list[str]

    @property
    def sound(self) -> bool:
        """Nothing acknowledged is missing, and every server has the model that the log describes."""
        return not (self.missing_events or self.missing_samples or self.servers_that_differ or self.failures)

    def __str__(self) -> str:
        return (
            f"kills or faults {self.kills}, requests {self.requests}, cut off {self.cut_off}, "
            f"answered 503 {self.unavailable}\n"
            f"acknowledged events {self.acknowledged}, acknowledged samples {self.stored}\n"
            f"missing events {self.missing_events}, missing samples {self.missing_samples}, "
            f"servers whose model is not the log's {self.servers_that_differ}, "
            f"other failures {self.failures[:3]}\n"
            f"{'sound' if self.sound else 'NOT SOUND'}"
        )


def campaign(url: str, n_servers: int, kills: int, fault: str = "kill", seed: int = 0) -> Report:
    """Run servers on a database under load, do something bad to them, and compare in the end."""
    chance, stop = random.Random(seed), threading.Event()
    with TemporaryDirectory() as folder:
        servers = [Server([*prepare(Path(folder)), "--database", url]) for _ in range(n_servers)]
        try:
            people = [Person(server, i, stop) for i, server in enumerate(servers)]
            for person in people:
                person.start()
            for _ in range(kills):
                _harm(chance.choice(servers), url, fault, chance)
            assert all(server.address for server in servers), "a server did not start again"
            sleep(0.5)
            stop.set()
            for person in people:
                person.join()
            models = _models(servers)
        finally:
            stop.set()
            for server in servers:
                server.kill()
    return _compared(url, kills, people, models)


def _harm(server: Server, url: str, fault: str, chance: random.Random) -> None:
    assert server.address, "a server did not start again"
    sleep(chance.uniform(0.2, 1.0))
    if fault == "terminate":  # every connection of every server, as when the database is restarted
        engine = create_engine(url)
        with engine.connect() as connection:
            connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            )
        engine.dispose()
        return
    server.kill()
    if fault == "full-disk":
        server.start(most_bytes=Path(url.removeprefix("sqlite:///")).stat().st_size + _FULL_AFTER)
        if server.address:
            sleep(chance.uniform(1.0, 2.0))
        server.kill()
    server.start()


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
        if len(set(versions)) == 1 or monotonic() > end:
            return models
        sleep(0.1)


def _compared(url: str, kills: int, people: list[Person], models: list[str]) -> Report:
    model, events, samples = replay(url)
    acknowledged = {event: kind for person in people for event, kind in person.acknowledged.items()}
    stored = set().union(*(person.stored for person in people))
    return Report(
        kills,
        sum(person.n_requests for person in people),
        len(acknowledged),
        len(stored),
        sum(person.n_lost for person in people),
        sum(person.n_unavailable for person in people),
        sum(events.get(event) != kind for event, kind in acknowledged.items()),
        len(stored - samples),
        sum(found != model for found in models),
        [failure for person in people for failure in person.failures],
    )


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
    """Run one campaign from the command line; the exit code is 1 if it was not sound."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reliability")
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--fault", choices=["kill", "full-disk", "terminate"], default="kill")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if (given.fault, given.database) in (("full-disk", "postgresql"), ("terminate", "sqlite")):
        parser.error(f"{given.fault} is not for {given.database}")
    with _database(given.database) as (url, n_servers):
        report = campaign(url, n_servers, given.kills, given.fault, given.seed)
    print(f"{given.database}, {n_servers} servers, {given.fault}: {report}")
    sys.exit(not report.sound)


if __name__ == "__main__":
    main()
