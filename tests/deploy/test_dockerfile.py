"""The Dockerfile: its instructions, what it copies, what it installs and what it runs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from openworld.service.api import administration

INSTRUCTIONS = {
    *("ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "RUN"),
    *("STOPSIGNAL", "USER", "VOLUME", "WORKDIR"),
}


@pytest.fixture
def instructions(folder: Path) -> list[tuple[str, str]]:
    text = (folder / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in joined)]


def all_of(instructions: list[tuple[str, str]], name: str) -> list[str]:
    return [rest for found, rest in instructions if found == name]


def test_every_instruction_exists(instructions: list[tuple[str, str]]) -> None:
    assert instructions[0][0] == "FROM"
    assert {name for name, _ in instructions} <= INSTRUCTIONS
    assert all(rest for _, rest in instructions)


def test_one_python_that_openworld_supports(instructions: list[tuple[str, str]], root: Path) -> None:
    bases = {base.split(" AS ")[0] for base in all_of(instructions, "FROM")}
    assert len(bases) == 1
    version = re.match(r"python:(\d+)\.(\d+)-slim", bases.pop())
    assert version is not None
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    least = re.fullmatch(r">=(\d+)\.(\d+)", project["requires-python"])
    assert least is not None
    assert tuple(map(int, version.groups())) >= tuple(map(int, least.groups()))


def copied(instructions: list[tuple[str, str]]) -> list[str]:
    lines = [rest for rest in all_of(instructions, "COPY") if not rest.startswith("--from=build ")]
    return [source for rest in lines for source in rest.split()[:-1]]


def test_what_is_copied_is_there_and_not_ignored(instructions: list[tuple[str, str]], root: Path) -> None:
    ignored = (root / "deploy" / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignored[0] == "*"
    kept = [line.removeprefix("!") for line in ignored if line.startswith("!")]
    for source in copied(instructions):
        assert (root / source).exists(), source
        assert any(fnmatch(source, pattern) for pattern in kept), source


def test_what_is_copied_is_enough_to_build(
    instructions: list[tuple[str, str]], root: Path, tmp_path: Path
) -> None:
    for source in copied(instructions):
        copy = tmp_path / "source" / source
        copy.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (root / source).is_dir() else shutil.copy)(root / source, copy)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path]
    subprocess.run([*command, tmp_path / "source"], check=True, capture_output=True)
    assert list(tmp_path.glob("openworld-*.whl"))


def test_what_is_installed_is_pinned(instructions: list[tuple[str, str]], root: Path) -> None:
    [install] = [rest for rest in all_of(instructions, "RUN") if "uv pip install" in rest]
    assert "--constraint requirements.lock --build-constraint requirements.lock" in install
    [extras] = re.findall(r'"\.\[([\w,]+)\]"', install)
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(extras.split(",")) == set(project["optional-dependencies"]) - {"all", "evaluate"}
    assert re.search(r"pip install --no-cache-dir uv==\d", all_of(instructions, "RUN")[0])


def test_it_does_not_run_as_root(instructions: list[tuple[str, str]]) -> None:
    last_stage = instructions[max(i for i, (name, _) in enumerate(instructions) if name == "FROM") :]
    user = all_of(last_stage, "USER")[-1]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    names = [name for name, _ in last_stage]
    assert names.index("USER") < names.index("ENTRYPOINT")


def test_what_it_runs(instructions: list[tuple[str, str]], parse: Any, settings: Any) -> None:
    entrypoint, command = (json.loads(all_of(instructions, name)[0]) for name in ("ENTRYPOINT", "CMD"))
    assert parse([*entrypoint, *command]) == parse(["openworld", "serve"])  # no options: all by environment
    variables = dict(word.split("=", 1) for word in all_of(instructions, "ENV")[0].split())
    found = settings({name: value for name, value in variables.items() if name != "PATH"})
    assert found.host == "0.0.0.0"
    assert all_of(instructions, "EXPOSE") == [str(found.port)]


def test_the_health_check_asks_what_is_answered(instructions: list[tuple[str, str]], settings: Any) -> None:
    [check] = all_of(instructions, "HEALTHCHECK")
    program, option, code = json.loads(check[check.index("CMD ") + 4 :])
    assert (program, option) == ("python", "-c")
    compile(code, "HEALTHCHECK", "exec")
    [(port, path)] = re.findall(r"http://127\.0\.0\.1:(\d+)(/\w+)", code)
    assert int(port) == settings({}).port
    app = FastAPI()
    app.include_router(administration.probes_router)
    assert path in app.openapi()["paths"]
