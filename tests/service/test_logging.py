from __future__ import annotations

import io
import json

import pytest


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'world.db'}"


def test_logs_are_lines_of_json(client, monkeypatch):
    import logging

    import structlog

    from openworld.service.logging import set_up_logging

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
