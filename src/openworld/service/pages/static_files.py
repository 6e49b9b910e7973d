"""The styles and scripts, read once: no path from a request ever reaches the file system."""

from __future__ import annotations

import hashlib
from importlib.resources import files

from fastapi import APIRouter, HTTPException, Response

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "txt": "text/plain"}
_FILES = {
    file.name: file.read_bytes() for file in files("openworld.service.pages").joinpath("static").iterdir()
}
_DIGEST = hashlib.sha256(b"".join(_FILES[name] for name in sorted(_FILES))).hexdigest()[:12]

# The address changes with the content, so browsers need never ask whether a file has changed.
FOLDER = f"/static/{_DIGEST}"
MODULES = sorted(name for name in _FILES if name.endswith(".js") and name not in ("htmx.min.js", "login.js"))

router = APIRouter()


@router.get("/static/{digest}/{name}")
def static_file(digest: str, name: str) -> Response:
    """Send a file."""
    if name not in _FILES:
        raise HTTPException(404, f"There is no file {name}.")
    lasts = "public, max-age=31536000, immutable" if digest == _DIGEST else "no-cache"
    return Response(_FILES[name], 200, {"Cache-Control": lasts}, _TYPES[name.rpartition(".")[2]])


@router.get("/favicon.ico")
def icon() -> Response:
    """Send the icon to browsers that ask for it where it used to be."""
    return static_file(_DIGEST, "icon.svg")
