"""What the checks of `deploy` share: the real command line and settings to hold it against."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from openworld.cli.app import app
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
    """How long a server that was told to end waits for requests under way."""
    return _SECONDS_TO_FINISH


@pytest.fixture
def parse() -> Callable[[list[str]], dict[str, Any]]:
    """Parse a command line with openworld's own parser, and return its options."""

    def parsed(words: list[str]) -> dict[str, Any]:
        assert Path(words[0]).name == "openworld"
        command, arguments, context = get_command(app), words[1:], None
        while isinstance(command, TyperGroup):
            context = command.make_context(command.name, [*arguments], parent=context)
            _, command, arguments = command.resolve_command(context, arguments)
            assert command is not None
        return dict(command.make_context(command.name, arguments, parent=context).params)

    return parsed


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
