"""Workflows, templates and citation keep the schemas of those who read them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from openworld import __version__

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("schema", ["github-workflows"])
def test_workflows(schema: str) -> None:
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert len(files) >= 3
    checked = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *files],
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_actions_are_pinned_to_commits() -> None:
    for file in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        for used in re.findall(r"uses: (.+)", file.read_text(encoding="utf-8")):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", used), used


def test_versions_agree() -> None:
    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## {__version__} - " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
