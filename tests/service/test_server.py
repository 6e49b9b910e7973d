from __future__ import annotations

import pytest

from openworld.service.results import Refused
from openworld.service.server import address, check_may_listen


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
