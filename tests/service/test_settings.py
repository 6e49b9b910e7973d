from __future__ import annotations

import re
from pathlib import Path

import pytest

from openworld.service.server import _to_environment
from openworld.service.settings import PREFIX, ServiceSettings, load_settings

DOCS = Path(__file__).parents[2] / "docs" / "service.md"


def test_flags_come_before_the_environment_and_that_before_the_file(tmp_path, monkeypatch):
    file = tmp_path / "openworld.toml"
    file.write_text('port = 1\nhost = "localhost"\nmax_batch = 7\nallowed_hosts = ["a", "b"]\n')
    monkeypatch.setenv("OPENWORLD_PORT", "2")
    monkeypatch.setenv("OPENWORLD_HOST", "::1")
    found = load_settings(file, port=3, host=None)
    assert (found.port, found.host, found.max_batch, found.nearest) == (3, "::1", 7, 5)
    assert found.allowed_hosts == ("a", "b")
    monkeypatch.setenv("OPENWORLD_ALLOWED_HOSTS", "x, y")
    assert load_settings(file).allowed_hosts == ("x", "y")


def test_wrong_settings_are_reported(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="port: Input should be less"):
        load_settings(port=70000)
    with pytest.raises(ValueError, match="key: it needs at least 16 characters"):
        load_settings(key="short")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_settings(tmp_path / "none.toml")
    (tmp_path / "wrong.toml").write_text("prot = 1\n")
    with pytest.raises(ValueError, match="There is no setting prot"):
        load_settings(tmp_path / "wrong.toml")
    (tmp_path / "broken.toml").write_text("port = \n")
    with pytest.raises(ValueError, match="is not a TOML file"):
        load_settings(tmp_path / "broken.toml")
    monkeypatch.setenv("OPENWORLD_WORKERS", "many")
    with pytest.raises(ValueError, match="workers"):
        load_settings()


def test_secrets_are_not_shown():
    settings = load_settings(key="a secret of many letters", session_secret="another secret of many")
    assert "secret of many" not in repr(settings)


def test_settings_pass_through_the_environment_unchanged(monkeypatch):
    for name in ServiceSettings.model_fields:
        monkeypatch.setenv(PREFIX + name.upper(), "")  # so that all are put back afterwards
        monkeypatch.delenv(PREFIX + name.upper())
    settings = load_settings(
        model="a.ow", key="k" * 16, allowed_hosts="a,b", clustering=False, rate_limit=2.5, workers=2
    )
    _to_environment(settings)
    assert load_settings().model_dump() == settings.model_dump()


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        *((host, True) for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost")),
        *((host, False) for host in ("0.0.0.0", "::", "192.168.0.1", "example.org")),
    ],
)
def test_loopback(host, loopback):
    assert load_settings(host=host).is_loopback is loopback


def test_every_setting_is_documented():
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \|$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    documented = {name: (default, text) for name, default, text in rows}
    assert list(documented) == list(ServiceSettings.model_fields)
    for name, info in ServiceSettings.model_fields.items():
        default, text = documented[name]
        shown = "" if info.default in (None, ()) else f"`{info.default}`"
        assert default == shown, name
        assert text == info.description, name
