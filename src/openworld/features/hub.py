"""Detection of an unreachable model hub, on which libraries would wait for over a minute."""

from __future__ import annotations

import os
import socket
import sys
import threading
from urllib.parse import urlsplit
from urllib.request import getproxies

_SECONDS = 2.0
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def go_offline_unless_reachable() -> bool:
    """Set the offline flags of the Hugging Face libraries if the hub does not answer; return whether it does.

    The hub is HF_ENDPOINT, or huggingface.co; behind a proxy the proxy must answer. Flags that are set
    already are not changed.
    """
    if any(os.environ.get(flag, "0").upper() in ("1", "ON", "YES", "TRUE") for flag in _OFFLINE):
        return False
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    if _answers(getproxies().get(urlsplit(endpoint).scheme, endpoint)):
        return True
    os.environ.update(dict.fromkeys(_OFFLINE, "1"))
    constants = sys.modules.get("huggingface_hub.constants")
    if constants is not None:  # it has read the flags already
        constants.HF_HUB_OFFLINE = True  # type: ignore[attr-defined]
    return False


def _answers(url: str) -> bool:
    parts = urlsplit(url if "//" in url else f"//{url}")
    address = (parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443))
    connected = threading.Event()

    def connect() -> None:
        try:
            socket.create_connection(address, timeout=_SECONDS).close()
            connected.set()
        except OSError:
            pass

    # In its own thread, because a host name lookup has no timeout.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(_SECONDS)
    return connected.is_set()
