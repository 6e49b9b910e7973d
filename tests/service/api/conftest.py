"""The service in this process, on a small world."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest
import uvicorn
from fastapi.testclient import TestClient

from openworld.service.app import create_app
from openworld.service.settings import ServiceSettings, load_settings
from openworld.service.world import World


def npy(X: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, X)
    return file.getvalue()


@pytest.fixture(scope="session")
def as_npy() -> Callable[[Any], bytes]:
    return npy


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'world.db'}"


@pytest.fixture
def world(url: str, models: Callable[[str], Any]) -> Iterator[World]:
    with World.open(url, models("nno")) as found:
        yield found


@pytest.fixture
def settings_of(url: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ServiceSettings]:
    """Make settings for the test's database; clustering is off unless asked for."""
    return lambda **changed: load_settings(**{"database": url, "clustering": False, **changed})


@pytest.fixture
def serving(world: World, settings_of: Callable[..., ServiceSettings]) -> Callable[..., Any]:
    """Return a context that gives a client of the service, with some settings."""

    @contextmanager
    def serve(a_world: World = world, **changed: Any) -> Iterator[TestClient]:
        app = create_app(a_world, settings_of(**changed))
        with TestClient(app, base_url="http://127.0.0.1:8000", client=("127.0.0.1", 5000)) as found:
            yield found

    return serve


@pytest.fixture
def client(serving: Callable[..., Any]) -> Iterator[TestClient]:
    with serving() as found:
        yield found


@pytest.fixture
def unknown(client: TestClient, things: Callable[..., Any]) -> list[int]:
    """Six samples of two unknown things, in the pool."""
    body = {"vectors": np.vstack([things(5, 3), things(6, 3)]).tolist()}
    answers = client.post("/v1/recognize", json=body).json()["answers"]
    return [answer["sample_id"] for answer in answers]


@pytest.fixture
def live(world: World, settings_of: Callable[..., ServiceSettings]) -> Iterator[str]:
    """Return the address of a real server."""
    app = create_app(world, settings_of())
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, timeout_graceful_shutdown=5))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    app.state.service.broadcast.close()
    server.should_exit = True
    thread.join()
