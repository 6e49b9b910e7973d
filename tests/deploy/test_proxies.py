"""The proxies: Caddy and nginx accept their files where they are installed; names, ports and limits agree."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from openworld.service.api.history import HEARTBEAT_SECONDS


@pytest.fixture
def caddyfile(folder: Path) -> str:
    return (folder / "Caddyfile").read_text(encoding="utf-8")


@pytest.fixture
def nginx(folder: Path) -> str:
    return (folder / "nginx.conf").read_text(encoding="utf-8")


def block(text: str, opening: str) -> str:
    """Return what is between the braces after `opening`."""
    start = text.index("{", text.index(opening)) + 1
    depth, end = 1, start
    while depth:
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
    return text[start : end - 1]


@pytest.mark.skipif(shutil.which("caddy") is None, reason="Caddy is not installed")
def test_caddy_accepts_it(folder: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        ["caddy", "adapt", "--validate", "--config", folder / "Caddyfile", "--adapter", "caddyfile"],
        env={"OPENWORLD_NAME": "world.example.org", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert '"world.example.org"' in run.stdout


def test_caddy_goes_to_the_servers(caddyfile: str, folder: Path, settings: Any) -> None:
    compose = yaml.safe_load((folder / "compose.yaml").read_text(encoding="utf-8"))
    [(name, port)] = re.findall(r"dynamic a (\w+) (\d+)", caddyfile)
    assert name in compose["services"]
    assert int(port) == settings({}).port
    assert set(re.findall(r"\{\$(\w+)\}", caddyfile)) == set(compose["services"]["proxy"]["environment"])


def test_bodies_that_openworld_takes_pass(caddyfile: str, nginx: str, folder: Path, settings: Any) -> None:
    [megabytes] = re.findall(r"max_size (\d+)MB", caddyfile)
    assert float(megabytes) >= settings({}).max_body_mb
    [mebibytes] = re.findall(r"client_max_body_size (\d+)m;", nginx)
    assert float(mebibytes) * 2**20 >= settings({}, folder / "openworld.toml").max_body_mb * 1e6


@pytest.mark.skipif(
    shutil.which("nginx") is None or shutil.which("openssl") is None, reason="nginx is not installed"
)
def test_nginx_accepts_it(nginx: str, tmp_path: Path) -> None:
    certificate = ["-keyout", tmp_path / "privkey.pem", "-out", tmp_path / "fullchain.pem"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", *certificate],
        check=True,
        capture_output=True,
    )
    # Only a test's own certificate, and ports that anyone may listen on.
    site = re.sub(r"^\s*listen \[::\].*\n", "", nginx, flags=re.MULTILINE)
    site = site.replace("/etc/ssl/openworld", str(tmp_path))
    site = site.replace("listen 80;", "listen 127.0.0.1:58080;").replace(
        "listen 443", "listen 127.0.0.1:58443"
    )
    (tmp_path / "site.conf").write_text(site, encoding="utf-8")
    main = "pid nginx.pid;\nerror_log stderr;\nevents {}\nhttp { access_log off; include site.conf; }\n"
    (tmp_path / "nginx.conf").write_text(main, encoding="utf-8")
    run = subprocess.run(
        ["nginx", "-t", "-e", "stderr", "-p", tmp_path, "-c", tmp_path / "nginx.conf"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def test_nginx_hands_events_on_at_once(nginx: str) -> None:
    events = block(nginx, "location = /v1/events ")
    assert "proxy_buffering off;" in events
    [timeout] = re.findall(r"proxy_read_timeout (\d+)s;", events)
    assert int(timeout) > HEARTBEAT_SECONDS


def test_nginx_and_the_units_agree(nginx: str, folder: Path, settings: Any) -> None:
    unit = (folder / "openworld@.service").read_text(encoding="utf-8")
    ports = set(re.findall(r"server 127\.0\.0\.1:(\d+)", block(nginx, "upstream openworld")))
    assert ports == set(re.findall(r"openworld@(\d+)", unit))
    hosts = settings({}, folder / "openworld.toml").allowed_hosts
    assert set(re.findall(r"server_name (\S+);", nginx)) == set(hosts)
    assert "proxy_set_header Host $http_host;" in nginx  # what allowed_hosts is compared with


def test_measurements_of_one_server_are_not_shown_outside(caddyfile: str, nginx: str) -> None:
    assert re.search(r"^\s*respond /metrics 404$", caddyfile, flags=re.MULTILINE)
    assert "return 404;" in block(nginx, "location = /metrics ")
