"""The styles and scripts, read once: no path from a request ever reaches the file system."""

from __future__ import annotations

import hashlib
from importlib.resources import files

from fastapi import APIRouter, HTTPException, Request, Response

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "txt": "text/plain"}
_FILES = {
    file.name: file.read_bytes() for file in files("openworld.service.pages").joinpath("static").iterdir()
}
_TAGS = {name: f'"{hashlib.sha256(data).hexdigest()[:16]}"' for name, data in _FILES.items()}

router = APIRouter()


@router.get("/static/{name}")
def static_file(name: str, request: Request) -> Response:
    """Send a file; browsers ask each time whether it changed, which costs next to nothing."""
    if name not in _FILES:
        raise HTTPException(404, f"There is no file {name}.")
    headers = {"ETag": _TAGS[name], "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}
    if request.headers.get("if-none-match") == _TAGS[name]:
        return Response(status_code=304, headers=headers)
    return Response(_FILES[name], headers=headers, media_type=_TYPES[name.rpartition(".")[2]])
