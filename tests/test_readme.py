"""The README's examples run, and its commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from openworld.cli.app import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_python_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    examples = blocks("python")
    assert examples
    for example in examples:
        exec(compile(example, "README.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    truth, answers = (np.fromstring(line.strip("[]"), dtype=int, sep=" ") for line in printed[:2])
    assert np.array_equal(truth[truth < 8], answers[truth < 8])
    assert np.mean(answers[truth >= 8] == -1) >= 0.4
    assert printed[2] == "[0 1 2 3 4 5 6 7 8]"


def test_make_commands_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", README, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_openworld_commands_exist() -> None:
    commands = set(re.findall(r"^openworld (\w+)", README, flags=re.MULTILINE))
    assert {"fit", "recognize", "learn", "inspect"} <= commands
    for command in commands:
        result = CliRunner().invoke(app, [command, "--help"])
        assert result.exit_code == 0, command


def test_every_command_is_in_the_readme_or_docs() -> None:
    documentation = README + "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")
    )
    for command in app.registered_commands:
        assert command.callback is not None
        name = (command.name or command.callback.__name__).replace("_", "-")
        assert f"openworld {name}" in documentation, name


def test_links_of_the_readme_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert link.startswith("https://") or (ROOT / link).exists(), link


def test_examples_in_docstrings() -> None:
    import doctest

    from openworld.recognition import class_statistics, nearest_class_mean, nearest_non_outlier

    for module in (class_statistics, nearest_class_mean, nearest_non_outlier):
        result = doctest.testmod(module)
        assert result.attempted > 0
        assert result.failed == 0
