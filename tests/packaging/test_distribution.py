"""What is in the wheel and in the source distribution."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT],
        check=True,
        capture_output=True,
    )
    return folder


def test_wheel(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "openworld/py.typed" in names
    assert any(name.endswith(".html") for name in names)
    assert any(name.endswith("htmx.min.js") for name in names)
    assert any("migrations/versions" in name for name in names)
    assert not [name for name in names if not name.startswith("openworld")]


def test_description_has_no_links_into_the_checkout(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    (metadata,) = (name for name in zipfile.ZipFile(wheel).namelist() if name.endswith("/METADATA"))
    description = zipfile.ZipFile(wheel).read(metadata).decode()
    assert description.startswith("Metadata-Version: 2.4\n")
    assert "# openworld" in description
    assert "leaderboard" in description
    assert "](" not in re.sub(r"\]\(https://[^)]+\)", "", description)


def test_source_distribution(dist: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    for needed in (
        *("Makefile", "requirements.lock", "SECURITY.md", "CITATION.cff", "mkdocs.yml", "LICENSE"),
        *("CODE_OF_CONDUCT.md", ".github/workflows/test.yml", "examples/photo_folder.py"),
        "benchmarks/accuracy/results/leaderboard-letters/results.csv",  # tests compare the pages with it
    ):
        assert needed in names
    assert any(name.startswith("tests/recognition/") for name in names)
