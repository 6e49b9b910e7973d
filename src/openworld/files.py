"""The cache folder of the package, and atomic writing of files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """Return OPENWORLD_CACHE if it is set, else `openworld` in the user's cache folder."""
    if own := os.environ.get("OPENWORLD_CACHE"):
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "openworld"


def write_atomic(target: Path, content: bytes) -> None:
    """Write a temporary file and rename it: readers see the old content or the new, never a part."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=target.stem, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
