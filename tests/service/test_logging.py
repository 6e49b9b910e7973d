from __future__ import annotations

import io
import json
import logging

import pytest
import structlog

from openworld.service.logging import set_up_logging


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'world.db'}"


def test_logs_are_lines_of_json(client, monkeypatch):
    before, config = logging.getLogger().handlers[:], structlog.get_config()
    level, stream = logging.getLogger().level, io.StringIO()
    try:
        monkeypatch.setattr("sys.stderr", stream)
        set_up_logging("info", "json")
        client.get("/v1/samples/99?secret=1")
        client.get("/health")
        logging.getLogger("a.library").warning("by %s", "hand")
    finally:
        logging.getLogger().handlers[:] = before
        logging.getLogger().setLevel(level)
        structlog.configure(**config)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    ours = [line for line in lines if line["event"] == "request"]
    assert [(line["path"], line["status"], line["level"]) for line in ours] == [
        ("/v1/samples/99", 404, "warning")
    ]
    assert lines[-1]["event"] == "by hand"


@pytest.mark.parametrize(
    ("terminal", "no_color", "colored"), [(True, None, True), (True, "1", False), (False, None, False)]
)
def test_logs_for_people_have_colors_on_a_terminal_only(monkeypatch, terminal, no_color, colored):
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    before, level, config = logging.getLogger().handlers[:], logging.getLogger().level, structlog.get_config()
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color is not None:
        monkeypatch.setenv("NO_COLOR", no_color)
    try:
        monkeypatch.setattr("sys.stderr", stream)
        set_up_logging("info", "console")
        structlog.get_logger("openworld").warning("something", number=1)
    finally:
        logging.getLogger().handlers[:] = before
        logging.getLogger().setLevel(level)
        structlog.configure(**config)
    assert "something" in stream.getvalue()
    assert ("\x1b[" in stream.getvalue()) is colored
