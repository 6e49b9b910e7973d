"""The campaign of benchmarks/reliability in its short form: killed under load, nothing is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


def test_killed_under_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parents[2]), *sys.path])
    from benchmarks.reliability.__main__ import campaign

    report = campaign(f"sqlite:///{tmp_path / 'world.db'}", n_servers=1, faults=2)
    assert report.sound, report
    assert report.cut_off > 0
