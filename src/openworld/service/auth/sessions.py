"""Session cookies: signed, so that nobody else can make or change one."""

from __future__ import annotations

import secrets
from typing import Any

from itsdangerous import BadSignature, URLSafeTimedSerializer

from openworld.service.settings import ServiceSettings
from openworld.service.world import World

COOKIE = "openworld_session"


class Sessions:
    """Writes and reads the content of session cookies.

    Parameters
    ----------
    secret : str
        Signs the cookies; another one ends all sessions.
    max_age : float
        Seconds after which a session ends.
    """

    def __init__(self, secret: str, max_age: float) -> None:
        self._signer = URLSafeTimedSerializer(secret, salt="openworld session")
        self.max_age = max_age

    def seal(self, content: dict[str, str]) -> str:
        """Return the content as text for a cookie."""
        return str(self._signer.dumps(content))

    def open(self, sealed: str) -> dict[str, Any] | None:
        """Return the content of a cookie, or None where it is not ours or too old."""
        try:
            content = self._signer.loads(sealed, max_age=int(self.max_age))
        except BadSignature:
            return None
        return content if isinstance(content, dict) else None


def session_secret(settings: ServiceSettings, world: World) -> str:
    """Return the secret of the settings, or else the one that all servers on the database share."""
    if settings.session_secret is not None:
        return settings.session_secret.get_secret_value()
    known = world.replicas.shared("session secret")
    if known is None:
        known = world.replicas.share(
            "session secret", secrets.token_urlsafe(32).encode("ascii"), replace=False
        )
    return known.decode("ascii")
