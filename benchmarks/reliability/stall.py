"""Does a huge request stall everyone? `/health` every few milliseconds, quiet and while large bodies arrive.

    python -m benchmarks.reliability.stall

prints the percentiles of `/health` and the peak of the server's memory above idle. The bodies are 60 MB of
`[1],[1],...` without a key, with one, and to log in, sent again and again by another process.
"""

from __future__ import annotations

from contextlib import suppress
from multiprocessing import Process
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

import httpx
import numpy as np
import psutil

from benchmarks.reliability.load import Server, first_model

_KEY = "a key of the benchmark"
_SECONDS = 20.0
_WITH_KEY = {"Authorization": f"Bearer {_KEY}"}
_BODIES: dict[str, tuple[str, dict[str, str]] | None] = {
    "quiet": None,
    "60 MB of lists, no key": ("/v1/recognize", {}),
    "60 MB of lists, key": ("/v1/recognize", _WITH_KEY),
    "60 MB of lists to log in": ("/v1/session", {}),
    "quiet again": None,
}


def _send(url: str, headers: dict[str, str]) -> None:
    body = b'{"vectors":[' + b"[1]," * 15_000_000 + b"[1]]}"
    with httpx.Client(timeout=600, headers={"Content-Type": "application/json", **headers}) as client:
        while True:
            with suppress(httpx.HTTPError):  # refused before the whole body was sent
                client.post(url, content=body)


def _measure(address: str, process: psutil.Process) -> tuple[list[float], int]:
    """Return the seconds that each `/health` took, and the peak of the memory."""
    seconds, peak, end = list[float](), 0, perf_counter() + _SECONDS
    with httpx.Client(base_url=address, timeout=600) as client:
        while perf_counter() < end:
            started = perf_counter()
            client.get("/health").raise_for_status()
            seconds.append(perf_counter() - started)
            peak = max(peak, process.memory_info().rss)
            sleep(0.005)
    return seconds, peak


def main() -> None:
    with TemporaryDirectory() as folder:
        server = Server(first_model(Path(folder)), f"sqlite:///{folder}/world.db", key=_KEY)
        try:
            process = psutil.Process(server.pid)
            address, idle = server.address, process.memory_info().rss
            print("| | `/health` p50, ms | p99, ms | longest, ms | MiB above idle |\n|---|---|---|---|---|")
            for name, sent in _BODIES.items():
                sender = None if sent is None else Process(target=_send, args=(address + sent[0], sent[1]))
                if sender is not None:
                    sender.start()
                seconds, peak = _measure(address, process)
                if sender is not None:
                    sender.kill()
                    sender.join()
                p50, p99, most = 1e3 * np.percentile(seconds, [50, 99, 100])
                more = (peak - idle) / 2**20
                print(f"| {name} | {p50:.0f} | {p99:.0f} | {most:.0f} | {more:.0f} |", flush=True)
        finally:
            server.kill()


if __name__ == "__main__":
    main()
