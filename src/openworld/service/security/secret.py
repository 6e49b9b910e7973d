"""The secret that session cookies are signed with."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from sqlalchemy import make_url

from openworld.service.configuration import ServiceSettings


def session_secret(settings: ServiceSettings) -> str:
    """Return the secret of the settings; else one kept beside the SQLite database; else a new one."""
    if settings.session_secret is not None:
        return settings.session_secret.get_secret_value()
    url = make_url(settings.database)
    if url.get_backend_name() != "sqlite" or not url.database:
        return secrets.token_urlsafe(32)
    return _kept(Path(f"{url.database}.secret"))


def _kept(path: Path) -> str:
    """Return the secret in a file that only its owner can read, made where it is not there."""
    try:
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return path.read_text(encoding="ascii")
    with os.fdopen(file, "w", encoding="ascii") as stream:
        stream.write(secrets.token_urlsafe(32))
    return path.read_text(encoding="ascii")
