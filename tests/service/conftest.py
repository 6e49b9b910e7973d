"""Worlds for tests: each test with a database runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from openworld import EuclideanMetric, NearestNonOutlier, OpenWorldRecognizer
from openworld.model_file.documents import describe
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


CENTRES = np.random.default_rng(7).normal(size=(12, 4)) * 8


def draw(kind: int, n: int = 1, seed: int = 0) -> NDArray[np.float32]:
    """Return samples of the kind-th of 12 well separated things."""
    random = np.random.default_rng([kind, seed])
    return (CENTRES[kind] + random.normal(size=(n, 4)) * 0.5).astype(np.float32)


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
