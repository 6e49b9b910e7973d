"""One world on SQLite: what these tests are about does not depend on the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openworld.service.world import World


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'world.db'}"


@pytest.fixture
def world(url: str, models: Callable[[str], Any]) -> Iterator[World]:
    with World.open(url, models("nno")) as found:
        yield found
