"""Servers that are killed and started again, and people who remember what was acknowledged."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from time import sleep

import httpx
import numpy as np
from numpy.typing import NDArray

from openworld import OpenWorldRecognizer, save
from openworld.client import Client, Outcome, ServiceError

N_KINDS = 12
_CENTERS = np.random.default_rng(7).normal(size=(N_KINDS, 4)) * 8
_REFUSED = {404, 409, 422}  # what another person did first, or what does not fit that
_SETTINGS = "clustering = false\nlog_level = 'error'\nrate_limit = 0\n"


def draw(kind: int, n: int, seed: int) -> NDArray[np.float32]:
    """Return samples of one of 12 well separated things."""
    noise = np.random.default_rng([kind, seed]).normal(size=(n, 4)) * 0.5
    return np.asarray(_CENTERS[kind] + noise, dtype=np.float32)


def prepare(folder: Path) -> list[str]:
    """Write a first model and settings; return the arguments of `openworld serve` for them."""
    X, y = np.vstack([draw(kind, 12, 0) for kind in range(3)]), np.repeat(["a", "b", "c"], 12)
    save(OpenWorldRecognizer(n_lifted=0).fit(X, y), folder / "model.ow")
    (folder / "settings.toml").write_text(_SETTINGS)
    return [str(folder / "model.ow"), "--config", str(folder / "settings.toml"), "--port", "0"]


class Server:
    """A process of `openworld serve`."""

    def __init__(self, arguments: list[str]) -> None:
        self._command = [sys.executable, "-c", "from openworld.cli import main; main()", "serve", *arguments]
        self._reading = threading.Lock()
        self.start()

    def start(self, most_bytes: int | None = None) -> None:
        """Start it; `most_bytes` is the largest file it may write, as on a disk that is full."""
        limit = None if most_bytes is None else lambda: _limit(most_bytes)
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True, preexec_fn=limit)
        self._address = ""

    @property
    def address(self) -> str:
        """Where it listens; waits until it does. Empty if it ended before."""
        with self._reading:
            if not self._address and self._process.stdout is not None:
                line = self._process.stdout.readline()
                self._address = line.split()[3] if "http://" in line else ""
            return self._address

    def kill(self) -> None:
        """Kill it, as `kill -9` does."""
        self._process.kill()
        self._process.wait()
        with self._reading:
            assert self._process.stdout is not None
            self._process.stdout.close()


def _limit(most_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))


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
            try:
                with Client(self._server.address) as client:
                    while not self._stop_working.wait(0.02):
                        self._work(client, next(numbers))
            except (httpx.TransportError, httpx.UnsupportedProtocol, ValueError):  # killed in the middle
                self.n_lost += 1
                sleep(0.05)

    def _work(self, client: Client, i: int) -> None:
        self.n_requests += 1
        try:
            outcome = self._choose(i)(client)
        except ServiceError as error:
            if error.status == 503:
                self.n_unavailable += 1
            elif error.status not in _REFUSED:
                self.failures.append(str(error))
        else:
            if outcome["event_id"] is not None:
                self.acknowledged[outcome["event_id"]] = outcome["kind"]

    def _choose(self, i: int) -> Callable[[Client], Outcome]:
        kind, other = self._chance.randrange(3, N_KINDS), self._chance.randrange(3, N_KINDS)
        seed = 1_000_000 * self._number + i

        def label(client: Client) -> Outcome:
            found = client.recognize(draw(kind, 3, seed))
            self.stored.update(answer["sample_id"] for answer in found["answers"] if answer["sample_id"])
            return client.label([sample["id"] for sample in client.pool(limit=3)["samples"]], f"k{other}")

        choices: list[tuple[Callable[[Client], Outcome], int]] = [
            (label, 4),
            (lambda client: client.learn(draw(kind, 2, seed), [f"k{kind}"] * 2), 4),
            (lambda client: client.dismiss([s["id"] for s in client.pool(limit=2)["samples"]], "blurred"), 1),
            (lambda client: client.undo(), 3),
            (lambda client: client.redo(), 1),
            (lambda client: client.change_class(f"k{kind}", f"r{other}"), 1),
            (lambda client: client.merge_classes([f"k{kind}", f"r{other}"], f"k{kind}"), 1),
            (lambda client: client.forget(f"r{other}"), 1),
        ]
        acts, weights = zip(*choices, strict=True)
        return self._chance.choices(acts, weights)[0]
