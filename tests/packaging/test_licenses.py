"""Every package that openworld installs states a license."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_dependency_states_its_license() -> None:
    listed = subprocess.run(
        [sys.executable, ROOT / "scripts" / "licenses.py"], capture_output=True, text=True, check=True
    ).stdout.splitlines()[2:]
    licenses = {row.split(" | ")[0].strip("| "): row.split(" | ")[2].strip("| ") for row in listed}
    assert {"numpy", "fastapi", "onnxruntime", "faiss-cpu", "matplotlib"} <= set(licenses)
    assert not [name for name, license in licenses.items() if license == "not stated"]
