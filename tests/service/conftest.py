"""Worlds for tests: each test with a database runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import io
import runpy
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
from numpy.typing import NDArray

from openworld import EuclideanMetric, NearestNonOutlier, OpenWorldRecognizer
from openworld.model_file.documents import describe
from openworld.service.app import create_app
from openworld.service.settings import ServiceSettings, load_settings
from openworld.service.world import World

_postgres = runpy.run_path(str(Path(__file__).parents[1] / "store" / "postgres_server.py"))


@pytest.fixture(scope="session")
def postgres_folder() -> Iterator[str]:
    with _postgres["running"]() as folder:
        yield folder


@pytest.fixture
def postgres_url(postgres_folder: str) -> str:
    return str(_postgres["new_database"](postgres_folder))


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'world.db'}"
    return str(request.getfixturevalue("postgres_url"))


draw = runpy.run_path(str(Path(__file__).with_name("things.py")))["draw"]


def make_model(recognizer: str) -> OpenWorldRecognizer | NearestNonOutlier:
    """Return a model of the first three things, named a, b and c."""
    X, y = np.vstack([draw(kind, 12) for kind in range(3)]), np.repeat(["a", "b", "c"], 12)
    if recognizer == "nno":
        return NearestNonOutlier(EuclideanMetric(standardize=False), tau=3.0).fit(X, y)
    return OpenWorldRecognizer(n_lifted=0, refresh_growth=float(recognizer)).fit(X, y)


@pytest.fixture(scope="session")
def things() -> Callable[..., NDArray[np.float32]]:
    return draw


@pytest.fixture(scope="session")
def models() -> Callable[[str], OpenWorldRecognizer | NearestNonOutlier]:
    return make_model


def state(model: Any) -> tuple[str, dict[str, bytes]]:
    """Return what is the same for models that are the same to the last bit, in all that they keep."""
    document, arrays = describe(model)
    return repr(document), {name: array.tobytes() for name, array in arrays.items()}


@pytest.fixture(scope="session")
def state_of() -> Callable[[Any], tuple[str, dict[str, bytes]]]:
    return state


@pytest.fixture
def world(url: str) -> Iterator[World]:
    with World.open(url, make_model("nno")) as found:
        yield found


# -- over HTTP, in this process ------------------------------------------------------------------


def npy(X: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, X)
    return file.getvalue()


@pytest.fixture(scope="session")
def as_npy() -> Callable[[Any], bytes]:
    return npy


@pytest.fixture
def settings_of(url: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ServiceSettings]:
    """Make settings for the test's database; clustering is off unless asked for."""
    return lambda **changed: load_settings(**{"database": url, "clustering": False, **changed})


@pytest.fixture
def serving(
    request: pytest.FixtureRequest, settings_of: Callable[..., ServiceSettings]
) -> Callable[..., Any]:
    """Return a context that gives a client of the service, with some settings."""

    @contextmanager
    def serve(a_world: World | None = None, **changed: Any) -> Iterator[TestClient]:
        world = request.getfixturevalue("world") if a_world is None else a_world  # one world for a database
        app = create_app(world, settings_of(**changed))
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
def listening(world: World, settings_of: Callable[..., ServiceSettings]) -> Callable[..., Any]:
    """Return a context that gives the address of a real server, with some settings."""

    @contextmanager
    def listen(**changed: Any) -> Iterator[str]:
        app = create_app(world, settings_of(**changed))
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, timeout_graceful_shutdown=5))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        app.state.service.broadcast.close()
        server.should_exit = True
        thread.join()

    return listen


@pytest.fixture
def live(listening: Callable[..., Any]) -> Iterator[str]:
    """Return the address of a real server."""
    with listening() as address:
        yield address
