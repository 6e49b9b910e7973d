"""Examples in the documentation run, and its commands are ones that exist with the options they are given."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def commands(page: Path) -> list[str]:
    return [
        line
        for block in blocks(page, "(?:bash)?")
        for line in block.replace("\\\n", " ").splitlines()
        if line.startswith("openworld ")
    ]


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.stem)
def test_commands_parse(page: Path, parse: Callable[[list[str]], dict[str, Any]]) -> None:
    for command in commands(page):
        words = shlex.split(command, comments=True)
        assert words == ["openworld", "--version"] or parse(words), command


def test_the_example_for_vectors_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for example in blocks(ROOT / "docs" / "start-vectors.md", "python"):
        exec(compile(example, "start-vectors.md", "exec"), names)
    assert (tmp_path / "digits.ow").is_file()
    assert 8 in names["model"].classes_.tolist()  # type: ignore[attr-defined]


def test_the_example_for_scikit_learn_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks(ROOT / "docs" / "evaluation.md", "python")
    names: dict[str, Any] = {}
    exec(compile(example, "evaluation.md", "exec"), names)
    assert -1.2 < names["search"].best_score_ < 0
    assert "metric" in capsys.readouterr().out
