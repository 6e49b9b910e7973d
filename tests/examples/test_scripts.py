"""The scripts in examples/ run as their first lines say."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from openworld import OpenWorldRecognizer, save

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(script: str, *arguments: object, folder: Path) -> str:
    """Run a script in a folder and return what it printed."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / script, *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_photo_folder(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for folder, n in (("photos", 8), ("new", 3)):
        for label, low in (("dark", 0), ("light", 190)):
            (tmp_path / folder / label).mkdir(parents=True)
            for i in range(n):
                pixels = random.integers(low, low + 60, (64, 64, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / folder / label / f"{i}.png")
    printed = run("photo_folder.py", "photos", "new", folder=tmp_path)
    counts = {line.split()[1]: int(line.split()[0]) for line in printed.splitlines()[:-1]}
    assert sum(counts.values()) == 6
    assert set(counts) <= {"dark", "light", "unknown"}
    assert (tmp_path / "photos.ow").is_file()


def test_text_intents(tmp_path: Path) -> None:
    rows = [f"will it rain on day {i},weather\nplease play song number {i},music" for i in range(6)]
    (tmp_path / "q.csv").write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    printed = run("text_intents.py", "q.csv", "will it rain on day 9", folder=tmp_path)
    assert printed.startswith("weather")
    assert "music" in printed  # among the nearest


def test_vectors_with_scikit_learn(tmp_path: Path) -> None:
    printed = run("vectors_with_scikit_learn.py", folder=tmp_path)
    shares = [float(share) for share in re.findall(r"0\.\d{3}", printed)]
    assert len(shares) == 4
    assert min(shares) > 0.7


def test_drift_and_growth(tmp_path: Path) -> None:
    weeks = [line.split() for line in run("drift_and_growth.py", folder=tmp_path).splitlines()[1:]]
    frozen, growing = float(weeks[-1][2]), float(weeks[-1][3])
    assert growing > 0.9
    assert growing > frozen


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The address of a service with two classes far from a third."""
    random = np.random.default_rng(0)
    X = np.concatenate(
        [random.normal(center, 1, (20, 16)) for center in (np.eye(16)[0] * 9, np.eye(16)[1] * 9)]
    )
    save(OpenWorldRecognizer(n_lifted=0).fit(X, np.repeat(["ant", "bee"], 20)), tmp_path / "m.ow")
    np.save(tmp_path / "new.npy", random.normal(np.eye(16)[2] * 9, 1, (12, 16)))
    command = [sys.executable, "-m", "openworld", "serve", "m.ow", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = next(line for line in server.stdout if "http://" in line)
        yield re.findall(r"http://[\d.:]+", line)[0]
        server.terminate()


def test_service_client(address: str, tmp_path: Path) -> None:
    printed = run("service_client.py", address, "new.npy", "cat", folder=tmp_path)
    unknown = int(re.findall(r"(\d+) unknown", printed)[0])
    assert unknown > 6
    assert f"Learned 'cat' from {unknown} samples" in printed
    assert len((EXAMPLES / "service_client.py").read_text(encoding="utf-8").splitlines()) <= 40
