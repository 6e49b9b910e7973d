"""The session cookie of the page: signed, and not to be made or changed by anyone else."""

from __future__ import annotations

from typing import Any

from itsdangerous import BadSignature, URLSafeTimedSerializer

COOKIE = "openworld_session"


class Sessions:
    """Makes and reads the content of session cookies.

    Parameters
    ----------
    secret : str
        What cookies are signed with; another one ends all sessions.
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
