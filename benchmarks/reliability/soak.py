"""A soak: hundreds of connections recognize and label for half an hour, and event streams come and go.

    python -m benchmarks.reliability.soak --minutes 30

prints a line every few minutes: latencies, failures, and the memory, open files and threads of the server,
which must not grow; at the end, what the failures were.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import httpx
import numpy as np
import psutil

from benchmarks.reliability.load import N_KINDS, Server, draw, first_model

_PAUSE = 2.0  # seconds at most, between two requests of one connection
_CONFLICTS = {404, 409, 422}  # another connection was first


class Soak:
    """Connections to one server, and what they measured since the last line."""

    def __init__(self, client: httpx.AsyncClient, end: float, label_share: float) -> None:
        self._client, self._end, self._label_share = client, end, label_share
        self.latencies: list[float] = []
        self.n_labels = self.n_streams = self.n_failed = 0
        self.causes: Counter[str] = Counter()  # of all failures since the start

    async def work(self, number: int) -> None:
        """Recognize and label, with pauses, until the end."""
        chance = random.Random(number)
        while monotonic() < self._end:
            await asyncio.sleep(chance.uniform(0, _PAUSE))
            if chance.random() < self._label_share:
                await self._label(chance)
            else:
                vectors = draw(chance.randrange(N_KINDS), 1, chance.randrange(1 << 30)).tolist()
                await self._send("POST", "/v1/recognize", json={"vectors": vectors})

    async def _label(self, chance: random.Random) -> None:
        pool = await self._send("GET", "/v1/pool", params={"limit": 20})
        found = [sample["id"] for sample in pool["samples"]] if pool else []
        if found:
            body = {"sample_ids": chance.sample(found, 1), "label": f"kind {chance.randrange(N_KINDS)}"}
            await self._send("POST", "/v1/label", json=body)
            self.n_labels += 1

    async def _send(self, method: str, path: str, **more: object) -> dict[str, list[dict[str, int]]]:
        started = monotonic()
        try:
            found = await self._client.request(method, path, **more)  # type: ignore[arg-type]
        except httpx.HTTPError as error:
            self._fail(f"{method} {path}", error)
            return {}
        self.latencies.append(monotonic() - started)
        if found.status_code in _CONFLICTS:
            return {}
        if not found.is_success:
            self._fail(f"{method} {path}", f"{found.status_code} {found.text[:200]}")
            return {}
        return dict(found.json())

    def _fail(self, what: str, why: httpx.HTTPError | str) -> None:
        self.n_failed += 1
        self.causes[f"{what}: {why if isinstance(why, str) else repr(why)}"] += 1

    async def listen(self, number: int) -> None:
        """Open an event stream for some seconds, again and again; some just disappear."""
        chance = random.Random(number)
        while monotonic() < self._end:
            until = monotonic() + chance.uniform(0.5, 20)
            try:
                async with self._client.stream("GET", "/v1/events", timeout=30) as stream:
                    self.n_streams += 1
                    async for _ in stream.aiter_lines():
                        if monotonic() > until:
                            break
            except httpx.HTTPError as error:
                self._fail("GET /v1/events", error)


def _line(soak: Soak, server: psutil.Process, minute: float) -> str:
    p50, p99 = 1e3 * np.percentile(soak.latencies or [0.0], [50, 99])
    cells = [
        f"{minute:.0f}",
        f"{len(soak.latencies):,}",
        f"{soak.n_labels:,}",
        f"{soak.n_streams:,}",
        f"{soak.n_failed}",
        f"{p50:.0f}",
        f"{p99:.0f}",
        f"{server.memory_info().rss / 2**20:.0f}",
        f"{server.num_fds()}",
        f"{server.num_threads()}",
    ]
    soak.latencies, soak.n_labels, soak.n_streams, soak.n_failed = [], 0, 0, 0
    return f"| {' | '.join(cells)} |"


async def run(server: Server, given: argparse.Namespace) -> None:
    """Load a server and print what was measured."""
    started, process = monotonic(), psutil.Process(server.pid)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=5)
    print("| minute | requests | labels | streams | failed | p50, ms | p99, ms | MiB | files | threads |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    async with httpx.AsyncClient(base_url=server.address, limits=limits, timeout=120) as client:
        soak = Soak(client, started + 60 * given.minutes, given.labels)
        tasks = [asyncio.create_task(soak.work(i)) for i in range(given.connections)]
        tasks += [asyncio.create_task(soak.listen(i)) for i in range(given.streams)]
        working = asyncio.gather(*tasks)
        while not working.done():
            await asyncio.wait([working], timeout=60 * given.every)
            print(_line(soak, process, (monotonic() - started) / 60), flush=True)
        await working
    print("\n".join(f"{n} failed: {cause}" for cause, n in soak.causes.most_common()) or "none failed")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reliability.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--labels", type=float, default=0.05, help="share of requests that label samples")
    parser.add_argument("--every", type=float, default=3.0, help="minutes between two lines")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        server = Server(first_model(Path(folder)), f"sqlite:///{folder}/world.db")
        try:
            asyncio.run(run(server, given))
        finally:
            server.kill()


if __name__ == "__main__":
    main()
