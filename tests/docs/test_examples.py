"""Examples in the documentation run, and its commands are ones that exist with the options they are given."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
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


@pytest.mark.parametrize(
    ("subject", "written"), [("vectors", "card.md"), ("text", "intents.ow"), ("pictures", "sheet.html")]
)
def test_get_started_by_copy_and_paste(subject: str, written: str, tmp_path: Path) -> None:
    """Everything but the installation and the service, which does not end, in an empty folder."""
    page = (ROOT / "docs" / f"start-{subject}.md").read_text(encoding="utf-8")
    script = [f'python() {{ {sys.executable} "$@"; }}', 'openworld() { python -m openworld "$@"; }']
    for language, block in re.findall(r"```(bash|python)\n(.*?)```", page, flags=re.DOTALL):
        if language == "python":
            script.append(f"python - <<'PYTHON'\n{block}PYTHON")
        elif not block.startswith(("pip ", "openworld serve ", "curl ")):
            script.append(block)
    subprocess.run(["bash", "-e", "-c", "\n".join(script)], cwd=tmp_path, check=True)
    assert (tmp_path / written).is_file()


def test_the_example_for_scikit_learn_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks(ROOT / "docs" / "evaluation.md", "python")
    names: dict[str, Any] = {}
    exec(compile(example, "evaluation.md", "exec"), names)
    assert -1.2 < names["search"].best_score_ < 0
    assert "metric" in capsys.readouterr().out
