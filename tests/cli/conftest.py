"""Running commands in this process, with a cache of their own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from openworld.cli import main


class Run:
    """Runs the command and keeps what it printed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys
        self.out = self.err = ""

    def __call__(self, *arguments: object, code: int = 0) -> str:
        self.monkeypatch.setattr(sys, "argv", ["openworld", *map(str, arguments)])
        found: object = 0
        try:
            main()
        except SystemExit as stop:
            found = stop.code or 0
        self.out, self.err = self.capsys.readouterr()
        assert found == code, self.out + self.err
        return self.out

    @property
    def message(self) -> str:
        """What was said on the error stream, as one line: it is wrapped to the width of the terminal."""
        return " ".join(self.err.split())


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(monkeypatch, capsys)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep features away from the user's own cache."""
    monkeypatch.setenv("OPENWORLD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
