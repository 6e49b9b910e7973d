"""DataError, raised by everything that reads data."""

from __future__ import annotations

import difflib
import os
from pathlib import Path


class DataError(ValueError):
    """Data that cannot be used. The message says which file, where in it, and what to do."""


def no_such_file(path: str | os.PathLike[str]) -> FileNotFoundError:
    """Return the error that says that a file or folder does not exist, with the name that may be meant."""
    path = Path(path)
    beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, beside, 1)
    hint = f"Did you mean {path.with_name(near[0])}?" if near else "Check its name."
    return FileNotFoundError(f"{path}: there is no such file or folder. {hint}")
