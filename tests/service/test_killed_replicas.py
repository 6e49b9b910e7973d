"""Three real servers on one PostgreSQL under load, killed at random: all models stay the same."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from openworld import save
from openworld.client import Client

Draw = Callable[..., NDArray[np.float32]]


@pytest.fixture
def campaign(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parents[2]), *sys.path])
    return import_module("benchmarks.reliability.__main__").campaign  # type: ignore[no-any-return]


def test_killed_at_random_under_load_all_are_the_same(
    postgres_url: str, campaign: Callable[..., Any]
) -> None:
    """Nothing acknowledged is missing, and all come to the version and the model that the log describes."""
    report = campaign(postgres_url, n_servers=3, faults=5)
    assert report.sound, report
    assert report.acknowledged >= 15
    assert report.cut_off > 0  # it did happen under load


def test_workers_follow_each_other(postgres_url: str, tmp_path: Path, models: Any, things: Draw) -> None:
    """Two processes at one address: what one has learned the other knows."""
    save(models("nno"), tmp_path / "model.ow")
    command = [sys.executable, "-c", "from openworld.cli import main; main()", "serve", "--port", "0"]
    command += [str(tmp_path / "model.ow"), "--database", postgres_url, "--workers", "2"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = server.stdout.readline().split()[3]
    try:
        with Client(address, timeout=300) as client:
            client.learn(things(5, 3), ["teapot"] * 3)
        in_a_row, n_known, end = 0, 0, monotonic() + 300
        while in_a_row < 20 and monotonic() < end:
            with Client(address, timeout=300) as client:  # a new connection, so either process
                label = client.recognize(things(5, 1, 7), remember=False)["answers"][0]["label"]
            in_a_row = in_a_row + 1 if label == "teapot" else 0
            n_known += label is not None
        assert in_a_row == 20
        # of both processes, whichever answers
        seen = httpx.get(f"{address}/metrics", timeout=300).text
        assert sum(1 for line in seen.splitlines() if line.startswith("openworld_samples_total")) == 2
        known = next(line for line in seen.splitlines() if 'openworld_samples_total{answer="known"}' in line)
        assert float(known.split()[1]) == n_known
    finally:
        server.kill()
        server.communicate()
    end = monotonic() + 300
    while monotonic() < end:  # the workers end with it, though it could not tell them
        try:
            httpx.get(address, timeout=1)
        except httpx.ConnectError:
            break
        except httpx.TransportError:
            pass
        sleep(0.1)
    with pytest.raises(httpx.ConnectError):
        httpx.get(address, timeout=300)
