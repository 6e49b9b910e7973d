"""Databases for tests: each test runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from openworld.store import Database

_postgres = runpy.run_path(str(Path(__file__).with_name("postgres_server.py")))


@pytest.fixture(scope="session")
def postgres_folder() -> Iterator[str]:
    with _postgres["running"]() as folder:
        yield folder


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'world.db'}"
    return str(_postgres["new_database"](request.getfixturevalue("postgres_folder")))


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    found = Database(url)
    yield found
    found.close()
