"""What docs/features.md says about visual words works as it stands there."""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from openworld import load
from openworld.cli.app import app

ROOT = Path(__file__).parents[2]
DOC = (ROOT / "docs" / "features.md").read_text(encoding="utf-8")


def write_photos(folder: Path, n: int, seed: int) -> None:
    """Write pictures of two classes: stripes across and stripes down, with noise."""
    random = np.random.default_rng(seed)
    stripes = np.tile(np.repeat([60, 190], 8), (64, 4))
    for label, pattern in (("across", stripes.T), ("down", stripes)):
        (folder / label).mkdir(parents=True)
        for i in range(n):
            noisy = pattern + random.integers(-40, 41, pattern.shape)
            Image.fromarray(noisy.astype(np.uint8)).convert("RGB").save(folder / label / f"{i}.png")


def test_visual_words_as_an_extractor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENWORLD_CACHE", str(tmp_path / "cache"))
    write_photos(Path("photos"), 12, seed=0)
    write_photos(Path("new-photos"), 5, seed=1)
    (example,) = re.findall(r"```python\n(.*?)```", DOC, flags=re.DOTALL)
    example = example.replace("n_words=300", "n_words=20")  # so that the test is fast
    exec(compile(example, "docs/features.md", "exec"), {})
    commands = re.findall(r"^openworld (.*words:hog.*)$", DOC, flags=re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["fit", "recognize"]
    for command in commands:
        result = CliRunner().invoke(app, shlex.split(command))
        assert result.exit_code == 0, result.output
    assert load(Path("hog.ow")).classes_.tolist() == ["across", "down"]
    answers = list(csv.DictReader(result.stdout.splitlines()))
    assert len(answers) == 10
    nearest = {row["name"].split("/")[0]: row["nearest_class"] for row in answers}
    assert nearest == {"across": "across", "down": "down"}


def test_commands_exist_and_links_lead_somewhere() -> None:
    commands = set(re.findall(r"^openworld (\w+)", DOC, flags=re.MULTILINE))
    assert {"fit", "recognize", "learn"} <= commands
    for command in commands:
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0, command
    for link in re.findall(r"\]\(([^)#]+)\)", DOC):
        assert link.startswith("https://") or (ROOT / "docs" / link).exists(), link
