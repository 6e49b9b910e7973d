"""The demonstration in the terminal: the whole loop with the core dependencies."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import openworld


def test_new_digits_are_learned_from_clusters(run: Any, tmp_path: Path) -> None:
    story = json.loads(run("demo", "--in-terminal", "--json", "--output", tmp_path))
    assert story["after"]["known digits"] > 0.8
    assert story["after"]["new digits"] > 0.7
    assert story["after"]["never named"] > 0.8
    assert "A person names each cluster" in run.err
    assert f"Grouped {story['named']} of these" in run.err
    assert len(openworld.load(tmp_path / "digits.ow").classes_) == 8


def test_the_table_says_what_is_right(run: Any, tmp_path: Path) -> None:
    shown = run("demo", "--in-terminal", "--output", tmp_path)
    assert "unknown, then its name" in shown


def test_without_the_extra_it_runs_in_the_terminal(tmp_path: Path) -> None:
    """A finder that hides the packages of the extras stands for an environment without them."""
    code = (
        "import sys\n"
        "from importlib.machinery import PathFinder\n"
        "hidden = {'fastapi', 'uvicorn', 'sqlalchemy', 'pydantic_settings', 'matplotlib', 'PIL', 'pyarrow'}\n"
        "class Finder(PathFinder):\n"
        "    @classmethod\n"
        "    def find_spec(cls, name, path=None, target=None):\n"
        "        found = name.partition('.')[0] in hidden\n"
        "        return None if found else super().find_spec(name, path, target)\n"
        "sys.meta_path[sys.meta_path.index(PathFinder)] = Finder\n"
        f"sys.argv = ['openworld', 'demo', '--output', {str(tmp_path)!r}]\n"
        "from openworld.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 'pip install "openworld[service]"' in done.stderr
    assert "never named" in done.stdout
    assert (tmp_path / "digits.ow").is_file()
