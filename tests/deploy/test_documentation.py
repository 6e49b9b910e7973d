"""docs/deploy.md names commands, files and variables that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from openworld.service.settings import PREFIX, ServiceSettings


@pytest.fixture
def text(root: Path) -> str:
    return (root / "docs" / "deploy.md").read_text(encoding="utf-8")


def test_commands_parse(text: str, parse: Any) -> None:
    blocks = "\n".join(re.findall(r"^```\w*\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL))
    in_blocks = re.findall(r"^openworld .*$", blocks, flags=re.MULTILINE)
    in_line = re.findall(r"`(openworld (?:serve|fit|key|export) [^`]+)`", text)
    assert len(in_blocks) >= 6
    assert len(in_line) >= 2
    for command in (*in_blocks, *in_line):
        assert parse(shlex.split(command, comments=True))


def test_files_are_there(text: str, root: Path) -> None:
    named = set(re.findall(r"(?:deploy|docs)/[\w@]+(?:\.\w+)+", text))
    assert {
        f"deploy/{path.name}" for path in (root / "deploy").iterdir() if path.suffix in (".service", ".env")
    } <= named
    for name in named:
        assert (root / name).is_file(), name


def test_variables_exist(text: str, folder: Path) -> None:
    settings = {PREFIX + name.upper() for name in ServiceSettings.model_fields}
    of_compose = set(re.findall(r"\$\{(\w+)", (folder / "compose.yaml").read_text(encoding="utf-8")))
    named = set(re.findall(r"\bOPENWORLD_[A-Z_]+\b", text))
    assert named
    assert named <= settings | of_compose
