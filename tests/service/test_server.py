from __future__ import annotations

import socket

import httpx
import pytest
from fastapi import FastAPI

from openworld.service.results import Refused
from openworld.service.server import _config, address, check_may_listen, check_port


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'world.db'}"


def test_listening_to_others_needs_a_key(world, settings_of):
    for host in ("127.0.0.1", "localhost", "::1"):
        check_may_listen(settings_of(host=host), world)
    with pytest.raises(Refused, match="openworld key create"):
        check_may_listen(settings_of(host="0.0.0.0"), world)
    check_may_listen(settings_of(host="0.0.0.0", key="a secret of many letters"), world)
    world.keys.create("gone", "admin")
    world.keys.revoke("gone")
    with pytest.raises(Refused, match="no key"):
        check_may_listen(settings_of(host="192.168.1.2"), world)
    with pytest.raises(Refused, match=r"a\.example lets others in"):  # through a proxy
        check_may_listen(settings_of(allowed_hosts="a.example"), world)
    world.keys.create("ann", "admin")
    check_may_listen(settings_of(host="192.168.1.2"), world)
    check_may_listen(settings_of(allowed_hosts="a.example"), world)


def test_addresses():
    assert address("127.0.0.1", 80) == "http://127.0.0.1:80"
    assert address("::1", 80) == "http://[::1]:80"


def test_a_port_in_use_is_said_plainly(settings_of):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(Refused, match=rf"Port {port} of 127\.0\.0\.1 is in use.*--port 0"):
            check_port(settings_of(port=port))
    check_port(settings_of(port=port))
    check_port(settings_of(port=0))
    with pytest.raises(Refused, match=r"Cannot listen on 192\.0\.2\.1"):  # of no machine: for documentation
        check_port(settings_of(host="192.0.2.1", port=0))


def test_clients_end_idle_connections_before_the_server_does(settings_of):
    """A connection that both ends close at one moment loses the request that was just sent."""
    client = httpx.Limits().keepalive_expiry
    assert client is not None
    assert _config(FastAPI(), settings_of()).timeout_keep_alive > 2 * client
