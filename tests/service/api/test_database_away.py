"""What a client hears while the database does not answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy.exc import OperationalError

from openworld.store import Database


def test_503_and_when_to_come_again(
    client: Any, things: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(self: Database) -> Any:
        raise OperationalError("SELECT 1", {}, OSError("connection refused"))

    assert client.get("/v1/pool").status_code == 200  # that there are no keys is remembered for a moment
    file = things(7, 1).astype(np.float32)
    monkeypatch.setattr(Database, "read", away)
    monkeypatch.setattr(Database, "write", away)
    refused = [
        client.post("/v1/label", json={"sample_ids": [1], "label": "x"}),
        client.get("/v1/pool"),
        client.post("/v1/recognize", json={"vectors": file.tolist()}),
        client.post(
            "/v1/recognize.npy", content=_npy(file), headers={"Content-Type": "application/octet-stream"}
        ),
    ]
    for answer in refused:
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2"), answer.text
        assert answer.json()["detail"] == "The database does not respond."
        assert "connection refused" not in answer.text
    known = client.post("/v1/recognize", json={"vectors": file.tolist(), "remember": False})
    assert known.status_code == 200


def test_a_fault_of_the_storage_is_reported_by_its_name(
    client: Any, things: Callable[..., Any], tmp_path: Path
) -> None:
    assert client.get("/ready").status_code == 200
    (tmp_path / "world.db").unlink()
    body = {"vectors": things(7, 1).tolist(), "labels": ["seven"]}
    for answer in (client.post("/v1/learn", json=body), client.get("/ready")):
        assert answer.status_code == 503
        assert "was removed or replaced" in answer.json()["detail"]
        assert answer.json()["hint"] is None  # trying again does not help
        assert "retry-after" not in answer.headers
    assert client.get("/health").status_code == 200


def _npy(array: np.ndarray) -> bytes:
    from io import BytesIO

    file = BytesIO()
    np.save(file, array)
    return file.getvalue()
