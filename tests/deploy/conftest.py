"""What the checks of `deploy` share: the real command line and settings to hold it against."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from openworld.service.server import _SECONDS_TO_FINISH
from openworld.service.settings import PREFIX, ServiceSettings, load_settings

Settings = Callable[..., ServiceSettings]


@pytest.fixture
def root() -> Path:
    return Path(__file__).parent.parent.parent


@pytest.fixture
def folder(root: Path) -> Path:
    return root / "deploy"


@pytest.fixture
def seconds_to_finish() -> int:
    """How long a server that was asked to stop waits for requests under way."""
    return _SECONDS_TO_FINISH


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Load settings as `openworld serve` does, in an environment that has these variables alone."""

    def loaded(environment: Mapping[str, str], config: Path | None = None, **flags: Any) -> ServiceSettings:
        for name in [name for name in os.environ if name.startswith(PREFIX)]:
            monkeypatch.delenv(name)
        for name, value in environment.items():
            if name.startswith(PREFIX):
                known = {PREFIX + field.upper() for field in ServiceSettings.model_fields}
                assert name in known | {"OPENWORLD_CACHE"}, f"{name} is not a setting"
            monkeypatch.setenv(name, value)
        return load_settings(config, **flags)

    return loaded
