"""How long it takes until a class learned through one of three servers is recognized by the others.

Three real servers on one PostgreSQL. From the moment the first has answered to the request, the others
are asked until they know the class; a class is learned every 0.2 seconds. Then the same without messages, so
that the others must poll the log.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, sleep

import numpy as np

from openworld import OpenWorldRecognizer, save
from openworld.client import Client

D, CLASSES, NEW = 128, 200, 50
SERVE = "from openworld.cli import main; main()"
DEAF = "from openworld.store.notify import NotifyChannel as C; C.send = lambda self, message: None; "


def start(url: str, model: str, before: str) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-c", before + SERVE, "serve", model, "--database", url, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().split()[3]


def measure(url: str, model: str, centers: np.ndarray, before: str) -> list[float]:
    random = np.random.default_rng(1)
    servers = [start(url, model, before) for _ in range(3)]
    waits = []
    try:
        first, *others = [Client(address) for _, address in servers]
        for i in range(NEW):
            samples = centers[CLASSES + i] + random.normal(size=(5, D)) * 0.3
            first.learn(samples, [f"new {i}"] * 5)
            learned = perf_counter()
            waiting = list(others)
            while waiting:
                for client in list(waiting):
                    answer = client.recognize(samples[:1], remember=False)["answers"][0]
                    if answer["label"] == f"new {i}":
                        waits.append(perf_counter() - learned)
                        waiting.remove(client)
            sleep(0.2)
    finally:
        for process, _ in servers:
            process.kill()
            process.wait()
    return waits


def main() -> None:
    postgres = runpy.run_path(str(Path(__file__).parents[2] / "tests" / "store" / "postgres_server.py"))
    os.environ["OPENWORLD_CLUSTERING"] = "false"
    random = np.random.default_rng(0)
    centers = random.normal(size=(CLASSES + NEW, D)) * 2
    X = np.repeat(centers[:CLASSES], 20, axis=0) + random.normal(size=(CLASSES * 20, D)) * 0.3
    model = OpenWorldRecognizer(n_lifted=0).fit(X, np.repeat([f"old {i}" for i in range(CLASSES)], 20))
    with tempfile.TemporaryDirectory() as folder, postgres["running"]() as server:
        path = str(Path(folder) / "model.ow")
        save(model, path)
        for name, before in (("with messages", ""), ("without, by looking", DEAF)):
            waits = measure(postgres["new_database"](server), path, centers, before)
            p50, p99 = 1e3 * np.quantile(waits, [0.5, 0.99])
            print(
                f"{name}: known to the others {p50:.0f} ms (median), {p99:.0f} ms (p99), "
                f"{1e3 * max(waits):.0f} ms (longest of {len(waits)}) after the answer to the request"
            )


if __name__ == "__main__":
    main()
