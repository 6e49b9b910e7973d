"""Settings for all tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

# Examples come out the same in every run, and no machine is too slow for them.
settings.register_profile("openworld", derandomize=True, deadline=None)
settings.load_profile("openworld")


@pytest.fixture(autouse=True, scope="session")
def _one_blas_thread() -> Iterator[None]:
    """Keep BLAS on one thread: tests measure answers, not speed, and the machine is shared."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with threadpool_limits(1):
        yield


@pytest.fixture
def parse() -> Callable[[list[str]], dict[str, Any]]:
    """Parse a command line with openworld's own parser, and return its options."""

    def parsed(words: list[str]) -> dict[str, Any]:
        from typer.core import TyperGroup
        from typer.main import get_command

        from openworld.cli.app import app

        assert Path(words[0]).name == "openworld"
        command, arguments, context = get_command(app), words[1:], None
        while isinstance(command, TyperGroup):
            context = command.make_context(command.name, [*arguments], parent=context)
            _, command, arguments = command.resolve_command(context, arguments)
            assert command is not None
        return dict(command.make_context(command.name, arguments, parent=context).params)

    return parsed
