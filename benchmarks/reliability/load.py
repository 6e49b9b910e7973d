"""Servers that are killed and started again, and people who remember what was acknowledged."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.reliability.faults import IN_PROCESS
from openworld import OpenWorldRecognizer, save
from openworld.client import Client, Outcome, ServiceError

N_KINDS = 12
_CENTERS = np.random.default_rng(7).normal(size=(N_KINDS, 4)) * 8
_REFUSED = {404, 409, 422}  # what another person did first, or what does not fit that
_FORKS = get_context("forkserver")
_FORKS.set_forkserver_preload(["openworld.service.server", "benchmarks.reliability.load"])


def draw(kind: int, n: int, seed: int) -> NDArray[np.float32]:
    """Return samples of one of 12 well separated things."""
    noise = np.random.default_rng([kind, seed]).normal(size=(n, 4)) * 0.5
    return np.asarray(_CENTERS[kind] + noise, dtype=np.float32)


def first_model(folder: Path) -> Path:
    """Write the model that a campaign begins with: three things are known."""
    X, y = np.vstack([draw(kind, 12, 0) for kind in range(3)]), np.repeat(["a", "b", "c"], 12)
    save(OpenWorldRecognizer(n_lifted=0).fit(X, y), folder / "model.ow")
    return folder / "model.ow"


class Server:
    """A server process, forked from one that has imported the service, which makes a start quick."""

    def __init__(self, model: Path, url: str, **settings: Any) -> None:
        self._settings: dict[str, Any] = {"model": model, "database": url, "port": 0, "log_level": "error"}
        self._settings |= {"clustering": False, "rate_limit": 0, **settings}
        self._reading = threading.Lock()
        self.start()

    def start(self, fault: str | None = None, size: int = 0) -> None:
        """Start it, with one of `faults.IN_PROCESS`; `size` is that of the database's file."""
        self._addresses, addresses = _FORKS.Pipe(duplex=False)
        self._process = _FORKS.Process(target=_serve, args=(self._settings, addresses, fault, size))
        self._process.start()
        addresses.close()
        self._address: str | None = None

    @property
    def pid(self) -> int | None:
        """The number of its process."""
        return self._process.pid

    @property
    def address(self) -> str:
        """Where it listens; waits until it does. Empty if it ended before."""
        with self._reading:
            if self._address is None:
                try:
                    self._address = str(self._addresses.recv())
                except (EOFError, OSError):
                    self._address = ""
            return self._address

    def kill(self) -> None:
        """Kill it, as `kill -9` does."""
        self._process.kill()
        self._process.join()
        with self._reading:
            self._addresses.close()


def _serve(settings: dict[str, Any], addresses: Connection, fault: str | None, size: int) -> None:
    from openworld.service.server import serve
    from openworld.service.settings import load_settings

    if fault is not None:
        IN_PROCESS[fault](size)
    serve(load_settings(**settings), addresses.send)


class Person(threading.Thread):
    """Someone who works with one server, whatever happens to it."""

    def __init__(self, server: Server, number: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._server, self._number, self._stop_working = server, number, stop
        self._chance = random.Random(number)
        self.acknowledged: dict[int, str] = {}
        self.stored: set[int] = set()
        self.n_requests = self.n_lost = self.n_unavailable = 0
        self.failures: list[str] = []

    def run(self) -> None:
        """Work until told to stop."""
        numbers = count()
        while not self._stop_working.is_set():
            address = self._server.address
            if address:
                with Client(address) as client:
                    while self._server.address == address and not self._stop_working.wait(0.02):
                        self._work(client, next(numbers))
            else:
                sleep(0.02)

    def _work(self, client: Client, i: int) -> None:
        self.n_requests += 1
        try:
            done = self._choose(i)(client)
        except ServiceError as error:
            if error.status is None:  # killed in the middle
                self.n_lost += 1
            elif error.status == 503:
                self.n_unavailable += 1
            elif error.status not in _REFUSED:
                self.failures.append(str(error))
        else:
            for outcome in done if isinstance(done, list) else [done]:
                if outcome["event_id"] is not None:
                    self.acknowledged[outcome["event_id"]] = outcome["kind"]

    def _choose(self, i: int) -> Callable[[Client], Outcome | list[Outcome]]:
        kind, other = self._chance.randrange(3, N_KINDS), self._chance.randrange(3, N_KINDS)
        seed = 1_000_000 * self._number + i

        def label(client: Client) -> Outcome:
            found = client.recognize(draw(kind, 3, seed))
            self.stored.update(answer["sample_id"] for answer in found["answers"] if answer["sample_id"])
            return client.label([sample["id"] for sample in client.pool(limit=3)["samples"]], f"k{other}")

        choices: list[tuple[Callable[[Client], Outcome | list[Outcome]], int]] = [
            (label, 4),
            (lambda client: client.learn(draw(kind, 2, seed), [f"k{kind}"] * 2), 4),
            (lambda client: client.dismiss([s["id"] for s in client.pool(limit=2)["samples"]], "blurred"), 1),
            (lambda client: client.undo(), 3),
            (lambda client: client.redo(), 1),
            (lambda client: client.change_class(f"k{kind}", f"r{other}"), 1),
            (lambda client: client.merge_classes([f"k{kind}", f"r{other}"], f"k{kind}"), 1),
            (lambda client: client.forget(f"r{other}"), 1),
        ]
        actions, weights = zip(*choices, strict=True)
        return self._chance.choices(actions, weights)[0]
