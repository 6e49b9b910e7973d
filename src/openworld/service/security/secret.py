"""The secret that session cookies are signed with."""

from __future__ import annotations

import secrets

from openworld.service.configuration import ServiceSettings
from openworld.service.world import World


def session_secret(settings: ServiceSettings, world: World) -> str:
    """Return the secret of the settings, else the one that all servers on the database share."""
    if settings.session_secret is not None:
        return settings.session_secret.get_secret_value()
    known = world.kept("session secret")
    if known is None:
        known = world.keep("session secret", secrets.token_urlsafe(32).encode("ascii"), replace=False)
    return known.decode("ascii")
