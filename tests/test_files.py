"""The cache folder, and files that are written whole or not at all."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from openworld.files import cache_folder, write_atomic


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OPENWORLD_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if sys.platform != "win32":
        assert cache_folder() == tmp_path / "home" / ".cache" / "openworld"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "openworld"
    monkeypatch.setenv("OPENWORLD_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


def test_a_write_that_fails_leaves_the_old_file_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    target = tmp_path / "new" / "file"
    write_atomic(target, b"old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("openworld.files.os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(target, b"new")
    assert target.read_bytes() == b"old"
    assert list(target.parent.iterdir()) == [target]
