"""Session cookies: signed, so that nobody else can make or change one; a session ends on the server."""

from __future__ import annotations

import json
import secrets
import threading
from time import time
from typing import Any

from itsdangerous import BadSignature, URLSafeTimedSerializer

from openworld.service.replicas import Replicas
from openworld.service.settings import ServiceSettings
from openworld.service.world import World

COOKIE = "openworld_session"

_ENDED = "ended sessions"


class Sessions:
    """Writes and reads the content of session cookies.

    Parameters
    ----------
    secret : str
        Signs the cookies; another one ends all sessions.
    max_age : float
        Seconds after which a session ends.
    replicas : Replicas
        Where all servers on the database see which sessions were ended.
    """

    def __init__(self, secret: str, max_age: float, replicas: Replicas) -> None:
        self._signer = URLSafeTimedSerializer(secret, salt="openworld session")
        self.max_age = max_age
        self._replicas, self._lock = replicas, threading.Lock()

    def seal(self, content: dict[str, str]) -> str:
        """Return the content as text for the cookie of a new session."""
        return str(self._signer.dumps({**content, "id": secrets.token_hex(8)}))

    def open(self, sealed: str) -> dict[str, Any] | None:
        """Return the content of a cookie; None if it is not ours, too old, or its session was ended."""
        try:
            content = self._signer.loads(sealed, max_age=int(self.max_age))
        except BadSignature:
            return None
        if not isinstance(content, dict) or content.get("id") in self._ended():
            return None
        return content

    def end(self, sealed: str) -> None:
        """End the session of a cookie, on all servers."""
        content = self.open(sealed)
        if content is None:
            return
        now = time()
        with self._lock, self._replicas.lock("sessions"):
            ended = {name: end for name, end in self._ended().items() if end > now}
            ended[str(content.get("id"))] = now + self.max_age
            self._replicas.share(_ENDED, json.dumps(ended).encode())

    def _ended(self) -> dict[str, float]:
        """Return the sessions that were ended, and when their cookies expire."""
        known = self._replicas.shared(_ENDED)
        return {} if known is None else dict(json.loads(known))


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
