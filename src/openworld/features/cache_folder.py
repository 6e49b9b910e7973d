"""The folder for what can be made again: converted networks and cached features."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_folder() -> Path:
    """Return OPENWORLD_CACHE if it is set, or else `openworld` in the user's folder of caches."""
    if own := os.environ.get("OPENWORLD_CACHE"):
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "openworld"


def write_whole(target: Path, content: bytes) -> None:
    """Write a file beside its place and move it there whole: nobody ever sees a part of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=target.stem, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
