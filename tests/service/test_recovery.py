"""A damaged SQLite file: what can still be read is exported, and is what was stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from openworld import load
from openworld.service.recovery import export_readable
from openworld.service.world import World
from openworld.store.storage import DamagedError

PAGE = 4096
N = 120


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, models: Callable[[str], Any], things: Any) -> Path:
    """A database in which many samples were learned one by one."""
    path = tmp_path_factory.mktemp("whole") / "world.db"
    with World.open(f"sqlite:///{path}", models("nno")) as world:
        for i in range(N):
            world.labels.learn(things(5 + i % 3, 1, i), [f"kind {i % 3}"], "ann")
    return path


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def damaged(whole: Path, path: Path, page: int) -> Path:
    """Copy a database and overwrite one of its pages."""
    content = bytearray(whole.read_bytes())
    content[page * PAGE : (page + 1) * PAGE] = b"\xaa" * PAGE
    path.write_bytes(content)
    return path


def test_a_whole_file_gives_everything(whole: Path, tmp_path: Path) -> None:
    assert export_readable(whole, "log", tmp_path / "log.ndjson") == N
    assert export_readable(whole, "labeled", tmp_path / "out.ndjson") == N
    assert export_readable(whole, "labeled", tmp_path / "out.npz") == N
    with World.open(f"sqlite:///{whole}") as world:
        events = list(world.history.export())
        stored: list[tuple[Any, NDArray[Any]]] = list(world.pool.labeled())
    assert [(row["id"], row["payload"]) for row in lines(tmp_path / "log.ndjson")] == [
        (event.id, event.payload) for event in events
    ]
    found = np.load(tmp_path / "out.npz")
    np.testing.assert_array_equal(found["X"], [feature for _, feature in stored])
    assert found["y"].tolist() == [sample.label for sample, _ in stored]
    assert [row["feature"] for row in lines(tmp_path / "out.ndjson")] == found["X"].tolist()
    assert export_readable(whole, "model", tmp_path / "model.ow") == 1
    assert load(tmp_path / "model.ow").n_features_in_ == 4


def test_one_damaged_page_loses_little(whole: Path, tmp_path: Path) -> None:
    """Whatever page it is, what is exported was stored, and most of it is there."""
    export_readable(whole, "log", tmp_path / "all.ndjson")
    everything = lines(tmp_path / "all.ndjson")
    n_pages, n_damaged, counts = whole.stat().st_size // PAGE, 0, []
    for page in range(1, n_pages, max(1, n_pages // 12)):
        path = damaged(whole, tmp_path / "damaged.db", page)
        try:
            World.open(f"sqlite:///{path}", alone=False).close()
        except DamagedError:
            n_damaged += 1
        counts.append(export_readable(path, "log", tmp_path / "log.ndjson"))
        assert all(row in everything for row in lines(tmp_path / "log.ndjson"))
    assert n_damaged > 3
    assert np.median(counts) == N
    assert sum(counts) > 0.7 * N * len(counts)


def test_the_file_itself_is_left_alone(whole: Path, tmp_path: Path) -> None:
    path = damaged(whole, tmp_path / "damaged.db", 5)
    before = path.read_bytes()
    export_readable(path, "log", tmp_path / "log.ndjson")
    assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["damaged.db", "log.ndjson"]


def test_nothing_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "world.db"
    path.write_bytes(b"no database at all" * 1000)
    assert export_readable(path, "log", tmp_path / "log.ndjson") == 0
