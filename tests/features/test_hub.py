"""Whether the Hugging Face hub answers."""

from __future__ import annotations

import os
import sys
import types

import pytest

from openworld.features import hub

pytestmark = pytest.mark.usefixtures("hub_settings")


def offline():
    return os.environ.get("HF_HUB_OFFLINE"), os.environ.get("TRANSFORMERS_OFFLINE")


def test_a_hub_that_answers(monkeypatch, server):
    monkeypatch.setenv("HF_ENDPOINT", server)
    assert hub.go_offline_unless_reachable()
    assert offline() == (None, None)


def test_a_hub_that_does_not(monkeypatch, nobody):
    monkeypatch.setenv("HF_ENDPOINT", nobody)
    constants = types.SimpleNamespace(HF_HUB_OFFLINE=False)
    monkeypatch.setitem(sys.modules, "huggingface_hub.constants", constants)
    assert not hub.go_offline_unless_reachable()
    assert offline() == ("1", "1")
    assert constants.HF_HUB_OFFLINE


def test_a_name_that_is_never_found_takes_seconds(monkeypatch):
    started, enough = hub.threading.Event(), hub.threading.Event()

    def hang(address, timeout):
        started.set()
        enough.wait()
        raise OSError("no such host")

    monkeypatch.setattr(hub, "_SECONDS", 0.05)
    monkeypatch.setattr(hub.socket, "create_connection", hang)
    try:
        assert not hub.go_offline_unless_reachable()
        assert started.wait(300)
    finally:
        enough.set()


def test_behind_a_proxy_the_proxy_counts(monkeypatch, server, nobody):
    monkeypatch.setenv("HF_ENDPOINT", nobody)
    monkeypatch.setattr(hub, "getproxies", lambda: {"http": server})
    assert hub.go_offline_unless_reachable()


def test_who_is_offline_already_stays_so(monkeypatch, server):
    monkeypatch.setenv("HF_ENDPOINT", server)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert not hub.go_offline_unless_reachable()
