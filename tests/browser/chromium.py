"""Finding a Chromium: the system's, else Debian's package where it may be installed, else playwright's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_HELP = (
    "The browser tests need Chromium, and none was found or could be installed. Get one by:\n"
    "  apt-get install chromium               (Debian, as root)\n"
    "  python -m playwright install chromium  (elsewhere; downloads some 150 MB)\n"
)


def find(own: str) -> str:
    """Return the path of a Chromium; `own` is where playwright keeps its own."""
    found = _system() or (own if Path(own).exists() else None)
    if found is None and hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        _run("apt-get", "install", "-y", "--no-install-recommends", "chromium")
        found = _system()
    if found is None:
        _run(sys.executable, "-m", "playwright", "install", "chromium")
        found = own if Path(own).exists() else None
    if found is None:
        raise RuntimeError(_HELP)
    return found


def _system() -> str | None:
    return next((path for path in map(shutil.which, _NAMES) if path), None)


def _run(*command: str) -> None:
    with suppress(OSError, subprocess.TimeoutExpired):  # the next way is tried, or the help is shown
        subprocess.run(command, check=False, timeout=600, capture_output=True)
