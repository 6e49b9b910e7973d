"""The systemd units: systemd itself accepts them, and what they run is what openworld takes."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

NAMES = ("openworld.service", "openworld@.service")
# Of systemd.unit(5), systemd.service(5), systemd.exec(5) and systemd.kill(5): what is used here.
DIRECTIVES = {
    "Unit": "After Description StartLimitIntervalSec Wants",
    "Service": """
        CacheDirectory CapabilityBoundingSet DynamicUser Environment EnvironmentFile ExecStart KillMode
        KillSignal LimitNOFILE LockPersonality NoNewPrivileges PrivateDevices PrivateTmp ProtectClock
        ProtectControlGroups ProtectHome ProtectHostname ProtectKernelLogs ProtectKernelModules
        ProtectKernelTunables ProtectProc ProtectSystem RemoveIPC Restart RestartSec RestrictAddressFamilies
        RestrictNamespaces RestrictRealtime RestrictSUIDSGID StateDirectory SystemCallArchitectures
        SystemCallErrorNumber SystemCallFilter TimeoutStopSec Type UMask User WorkingDirectory
    """,
    "Install": "WantedBy",
}


def read(path: Path) -> dict[str, dict[str, str]]:
    """Read a unit: sections of lines NAME=VALUE, each name once."""
    sections: dict[str, dict[str, str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        if header := re.fullmatch(r"\[(\w+)\]", line):
            section = sections.setdefault(header[1], {})
            continue
        name, value = re.fullmatch(r"(\w+)=(.*)", line).groups()  # type: ignore[union-attr]
        assert name not in section, f"{path.name}: {name} is there twice"
        section[name] = value
    return sections


def variables(lines: list[str]) -> dict[str, str]:
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@pytest.fixture(params=NAMES)
def path(request: pytest.FixtureRequest, folder: Path) -> Path:
    return folder / str(request.param)


@pytest.fixture
def service(path: Path) -> dict[str, str]:
    return read(path)["Service"]


def test_every_directive_exists(path: Path) -> None:
    for section, lines in read(path).items():
        assert set(lines) <= set(DIRECTIVES[section].split())


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_has_nothing_to_say(path: Path, tmp_path: Path) -> None:
    program = tmp_path / "openworld"
    program.write_text("#!/bin/sh\n", encoding="ascii")
    program.chmod(0o755)
    text = path.read_text(encoding="utf-8").replace("/opt/openworld/bin/openworld", str(program))
    unit = tmp_path / path.name.replace("@.", "@8001.")

    def said(content: str) -> str:
        unit.write_text(content, encoding="utf-8")
        run = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
        return "\n".join(line for line in run.stderr.splitlines() if unit.name in line)

    assert said(text) == ""
    assert "ProtectSytem" in said(text.replace("ProtectSystem", "ProtectSytem"))


def test_what_it_runs(path: Path, service: dict[str, str], folder: Path, parse: Any, settings: Any) -> None:
    words = shlex.split(service["ExecStart"].replace("%i", "8001"))
    options = parse(words)
    assert options["config"] == Path("/etc/openworld/openworld.toml")
    assert options["port"] == (8001 if "@" in path.name else None)

    given = (folder / Path(service["EnvironmentFile"]).name).read_text(encoding="utf-8").splitlines()
    found = settings(
        variables([*given, *service["Environment"].split()]), folder / "openworld.toml", port=options["port"]
    )
    assert found.database.startswith("postgresql+psycopg://")
    assert found.is_loopback
    assert found.key is not None  # whoever comes through a proxy on this host would else be admin
    assert found.secure_cookie
    assert found.port == (8001 if "@" in path.name else 8000)


def test_every_line_of_the_settings_file_says_something(folder: Path, settings: Any) -> None:
    found = settings({}, folder / "openworld.toml")
    assert found.allowed_hosts == ("openworld.example.org",)
    assert found.model_fields_set == {
        "host",
        "allowed_hosts",
        "secure_cookie",
        "max_body_mb",
        "log_level",
        "log_format",
    }


def test_the_port_is_all_that_differs(folder: Path) -> None:
    one, several = (read(folder / name) for name in NAMES)
    differing = {name for name in one["Service"] if one["Service"][name] != several["Service"].get(name)}
    assert differing == {"ExecStart", "Environment"}
    assert set(one["Service"]) == set(several["Service"])
    assert one["Install"] == several["Install"]


def test_requests_under_way_can_finish(service: dict[str, str], seconds_to_finish: int) -> None:
    assert service["KillSignal"] == "SIGTERM"
    assert int(service["TimeoutStopSec"]) > seconds_to_finish


def test_it_is_locked_in(service: dict[str, str]) -> None:
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""
    for name in ("DynamicUser", "NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome"):
        assert service[name] == "yes"
    # What it may write to: its database, if that is SQLite, and what can be made again.
    assert service["WorkingDirectory"] == f"%S/{service['StateDirectory']}"
    assert f"OPENWORLD_CACHE=%C/{service['CacheDirectory']}" in service["Environment"].split()
